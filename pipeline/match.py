"""Find copies in any two folders of images, or within one, with a trained run, a checkpoint or an ONNX file.

match.py --queries DIR --references DIR     which references do the queries copy? Without --references: copies within DIR.
match.py --index DIR --add DIR …            keep a reference index; only contents that it lacks are embedded.
match.py --index DIR --remove PATH …        take files, or all below a folder, out of it.
match.py --index DIR --queries DIR          search it.
"""

import argparse
from pathlib import Path

from data.errors import UserError
from pipeline.run.cli import add_data_option, named_path, report_errors


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    options.add_argument("--queries", type=named_path, metavar="DIR", help="images that may be copies")
    options.add_argument("--references", type=named_path, metavar="DIR", help="images that may have been copied")
    options.add_argument("--index", type=named_path, metavar="DIR", help="a reference index to keep; made when it is new")
    options.add_argument(
        "--add", type=named_path, nargs="+", metavar="DIR", default=[], help="with --index: add all images below"
    )
    options.add_argument(
        "--remove", type=named_path, nargs="+", metavar="PATH", default=[], help="with --index: files or folders"
    )
    options.add_argument("--checkpoint", type=named_path, metavar="FILE", help="describe images with this .safetensors, no run")
    options.add_argument("--onnx", type=named_path, metavar="FILE", help="describe images with this .onnx (export.py), no run")
    options.add_argument("--false-alarms", type=float, default=0.001, metavar="RATE", help="per query; default 0.001")
    options.add_argument("--threshold", type=float, metavar="SCORE", help="lowest score of a copy, instead of --false-alarms")
    options.add_argument(
        "--unrelated", type=named_path, metavar="DIR", help="calibrate on these pictures, no copies of each other"
    )
    options.add_argument("--most", type=int, default=10, metavar="N", help="references per query at most; default 10")
    options.add_argument("--output", type=named_path, default=Path("matches"), metavar="DIR", help="default: matches")
    add_data_option(options)
    return options


def check(options: argparse.Namespace) -> None:
    """UserError for options that make no sense together."""
    if (options.add or options.remove) and options.index is None:
        raise UserError("--add and --remove change an index: name it with --index DIR.")
    if options.queries is None and not (options.add or options.remove):
        raise UserError("name the images to search for with --queries DIR (or change an index with --index, --add, --remove).")
    if options.references is not None and options.index is not None:
        raise UserError("--references makes an index of its own; to search a kept one, add the folder: --index DIR --add DIR.")
    if options.checkpoint is not None and options.onnx is not None:
        raise UserError("--checkpoint and --onnx exclude each other: one network describes the images.")
    if not 0 < options.false_alarms < 1:
        raise UserError(f"--false-alarms {options.false_alarms}: a rate per query between 0 and 1, such as 0.001.")
    if options.threshold is not None and not options.threshold <= 0:
        raise UserError(f"--threshold {options.threshold}: a score is −‖q − r‖², 0 for the very same vector; such as -0.5.")
    if options.most < 1:
        raise UserError(f"--most {options.most}: at least 1.")


if __name__ == "__main__":
    arguments = parser().parse_args()
    with report_errors():
        check(arguments)
        # imported here: --help must answer at once
        from pipeline.tools.match_command import match

        match(arguments)
