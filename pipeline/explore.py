"""A local page that explores a run: drop or pick an image, edit it, see its nearest references. Or a search service.

explore.py                     the latest run, at http://127.0.0.1:8765
explore.py --run DIR --port 9000
explore.py --references DIR    any pictures without a run, with the descriptor that ships with the project
explore.py --serve --index DIR search an index (match.py --index) over HTTP, for programs
"""

import argparse

from data.errors import UserError
from pipeline.run.cli import add_data_option, named_path, report_errors

REFERENCES_PER_ANSWER = 10


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = options.add_mutually_exclusive_group()
    source.add_argument("--references", type=named_path, metavar="DIR", help="search these pictures, without a run")
    source.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    options.add_argument("--port", type=int, default=8765, help="port on 127.0.0.1; default 8765")
    options.add_argument(
        "--false-alarms", type=float, default=0.001, metavar="RATE", help="expected per query that copies nothing; default 0.001"
    )
    add_data_option(options)
    options.add_argument("--serve", action="store_true", help="instead of the page, search an index over HTTP")
    options.add_argument("--index", type=named_path, metavar="DIR", help="with --serve: an index made by match.py")
    options.add_argument("--checkpoint", type=named_path, metavar="FILE", help="with --serve: this network instead of a run")
    options.add_argument("--onnx", type=named_path, metavar="FILE", help="with --serve: this ONNX file instead of a run")
    options.add_argument("--threshold", type=float, metavar="SCORE", help="with --serve: lowest score of a copy")
    return options


def check(options: argparse.Namespace) -> None:
    """Reject options that cannot be combined, and values out of range.

    Raises:
        UserError: with the options, the reason and the remedy.
    """
    if options.serve and options.index is None:
        raise UserError("--serve searches an index: give one with --index DIR (match.py --index DIR --add DIR makes it).")
    if not options.serve and (options.index or options.checkpoint or options.onnx or options.threshold is not None):
        raise UserError("--index, --checkpoint, --onnx and --threshold need --serve: add it, or omit them to explore a run.")
    if options.threshold is not None and not options.threshold <= 0:
        raise UserError(f"--threshold {options.threshold}: scores are −‖q − r‖², at most 0; give a number such as -0.5.")
    if not 0 < options.false_alarms < 1:
        raise UserError(f"--false-alarms {options.false_alarms}: give a rate per query between 0 and 1, such as 0.001.")


if __name__ == "__main__":
    arguments = make_parser().parse_args()
    with report_errors():
        check(arguments)
        # imported here: --help must answer at once
        from pipeline.tools.explorer.serving import explore, serve
        from pipeline.tools.match_model import make_rule, open_model

        if arguments.serve:
            model = open_model(arguments.run, arguments.data, arguments.checkpoint, arguments.onnx)
            serve(
                arguments.index,
                model,
                make_rule(model, arguments.threshold, arguments.false_alarms, REFERENCES_PER_ANSWER),
                arguments.port,
            )
        else:
            explore(arguments.run, arguments.data, arguments.port, arguments.false_alarms, arguments.references)
