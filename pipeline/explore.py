"""A page on this machine that shows what a run makes of an image: drop or pick one, edit it, see the nearest references.

explore.py                    the latest run, at http://127.0.0.1:8765
explore.py --run DIR --port 9000
explore.py --references DIR   any pictures, without a run: with the descriptor that ships with the project
explore.py --serve --index DIR search of a kept index (match.py --index) over HTTP, for programs
"""

import argparse

from data.errors import UserError
from pipeline.run.cli import add_data_option, named_path, report_errors

MOST = 10  # references in an answer


def make_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = options.add_mutually_exclusive_group()
    source.add_argument("--references", type=named_path, metavar="DIR", help="search these pictures, without a run")
    source.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    options.add_argument("--port", type=int, default=8765, help="of 127.0.0.1; default 8765")
    options.add_argument("--false-alarms", type=float, default=0.001, metavar="RATE", help="per query; default 0.001")
    add_data_option(options)
    options.add_argument("--serve", action="store_true", help="no page: search a kept index over HTTP")
    options.add_argument("--index", type=named_path, metavar="DIR", help="with --serve: the index, made by match.py")
    options.add_argument("--checkpoint", type=named_path, metavar="FILE", help="with --serve: this network instead of a run")
    options.add_argument("--onnx", type=named_path, metavar="FILE", help="with --serve: this ONNX file instead of a run")
    options.add_argument("--threshold", type=float, metavar="SCORE", help="with --serve: lowest score of a copy")
    return options


def check(options: argparse.Namespace) -> None:
    """Refuse options that make no sense together.

    Raises:
        UserError: says which ones and why.
    """
    if options.serve and options.index is None:
        raise UserError("--serve searches a kept index: name it with --index DIR (match.py --index DIR --add DIR makes one).")
    if not options.serve and (options.index or options.checkpoint or options.onnx or options.threshold is not None):
        raise UserError("--index, --checkpoint, --onnx and --threshold go with --serve; the page works on a run.")
    if options.threshold is not None and not options.threshold <= 0:
        raise UserError(f"--threshold {options.threshold}: a score is −‖q − r‖², 0 for the very same vector; such as -0.5.")
    if not 0 < options.false_alarms < 1:
        raise UserError(f"--false-alarms {options.false_alarms}: a rate per query between 0 and 1, such as 0.001.")


if __name__ == "__main__":
    arguments = make_parser().parse_args()
    with report_errors():
        check(arguments)
        # imported here: --help must answer at once
        from pipeline.tools.explorer.serving import explore, serve
        from pipeline.tools.match_model import make_rule, open_model

        if arguments.serve:
            model = open_model(arguments.run, arguments.data, arguments.checkpoint, arguments.onnx)
            serve(arguments.index, model, make_rule(model, arguments.threshold, arguments.false_alarms, MOST), arguments.port)
        else:
            explore(arguments.run, arguments.data, arguments.port, arguments.false_alarms, arguments.references)
