"""Pages on this machine: what a network makes of an image, and what match.py found.

explore.py                     the latest run, at http://127.0.0.1:8765: drop an image, edit it, see its nearest references
explore.py --run DIR --port 9000
explore.py --references DIR    any pictures without a run, with the descriptor that ships with the project
explore.py --index DIR         the pictures of an index (match.py --index)
explore.py --matches DIR       go through the pairs and groups that match.py found: decide, choose which files to keep, carry out
explore.py --serve --index DIR search an index (match.py --index) over HTTP, for programs
"""

import argparse
from collections.abc import Sequence
from functools import partial

from image_copies.data.commands import describe_command, name_command
from image_copies.data.errors import UserError
from image_copies.pipeline.run.cli import CommandParser, add_data_option, named_path, report_errors

REFERENCES_PER_ANSWER = 10


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = CommandParser(
        prog=name_command("explore"), description=describe_command(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = options.add_mutually_exclusive_group()
    source.add_argument("--references", type=named_path, metavar="DIR", help="search these pictures, without a run")
    source.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    source.add_argument("--matches", type=named_path, metavar="DIR", help="review what match.py wrote there (its --output)")
    options.add_argument("--port", type=int, default=8765, help="port on 127.0.0.1; default 8765")
    options.add_argument(
        "--false-alarms", type=float, default=0.001, metavar="RATE", help="expected per query that copies nothing; default 0.001"
    )
    add_data_option(options)
    options.add_argument("--serve", action="store_true", help="with --index: instead of the page, search over HTTP")
    options.add_argument("--index", type=named_path, metavar="DIR", help="search this index, made by match.py")
    options.add_argument("--checkpoint", type=named_path, metavar="FILE", help="with --index: this network instead of a run")
    options.add_argument("--onnx", type=named_path, metavar="FILE", help="with --index: this ONNX file instead of a run")
    options.add_argument("--threshold", type=float, metavar="SCORE", help="with --serve: lowest score of a copy")
    return options


def check(options: argparse.Namespace) -> None:
    """Reject options that cannot be combined, and values out of range.

    Raises:
        UserError: with the options, the reason and the remedy.
    """
    network = options.checkpoint is not None or options.onnx is not None
    if options.serve and options.index is None:
        raise UserError(
            f"--serve searches an index: give one with --index DIR ({name_command('match')} --index DIR --add DIR makes it)."
        )
    if options.serve and options.matches is not None:
        raise UserError("--serve answers programs, --matches shows a page to a person: one of the two.")
    if options.references is not None and options.index is not None:
        raise UserError("--references and --index exclude each other: one set of pictures is searched.")
    if options.threshold is not None and not options.serve:
        raise UserError("--threshold goes with --serve; the page shows the calibrated one.")
    if network and (options.index is None or options.matches is not None):
        raise UserError("--checkpoint and --onnx name the network that made a kept index: name that too, with --index DIR.")
    if options.checkpoint is not None and options.onnx is not None:
        raise UserError("--checkpoint and --onnx exclude each other: one network describes the images.")
    if options.threshold is not None and not options.threshold <= 0:
        raise UserError(f"--threshold {options.threshold}: scores are −‖q − r‖², at most 0; give a number such as -0.5.")
    if not 0 < options.false_alarms < 1:
        raise UserError(f"--false-alarms {options.false_alarms}: give a rate per query between 0 and 1, such as 0.001.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says until Ctrl-C, and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser().parse_args(arguments)
    check(options)
    # imported here: --help must answer at once, and a review needs no network
    if options.matches is not None:
        from image_copies.matching.review.serving import review

        review(options.matches, options.index, options.port)
        return 0
    from image_copies.matching.calibration import make_rule
    from image_copies.matching.explorer.answers import open_index_explorer
    from image_copies.matching.explorer.serving import explore, serve
    from image_copies.pipeline.tools.run_explorer import open_explorer
    from image_copies.pipeline.tools.run_extractor import open_extractor

    if options.index is None:
        explore(partial(open_explorer, options.run, options.data, options.references, options.false_alarms), options.port)
        return 0
    extractor = open_extractor(options.run, options.data, options.checkpoint, options.onnx)
    rule = make_rule(extractor, options.threshold, options.false_alarms, REFERENCES_PER_ANSWER)
    if options.serve:
        serve(options.index, extractor, rule, options.port)
    else:
        explore(partial(open_index_explorer, options.index, extractor, rule), options.port)
    return 0


if __name__ == "__main__":
    with report_errors():
        main()
