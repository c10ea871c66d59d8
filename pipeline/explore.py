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
from typing import TYPE_CHECKING

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, text_of
from image_copies.pipeline.run.cli import DIR, FILE, FLAG, OPTIONS, PORT, RULE, add_options, make_task_parser, report_errors
from image_copies.pipeline.tools.match_options import is_hash_list

if TYPE_CHECKING:
    from fastapi import APIRouter

REFERENCES_PER_ANSWER = 10


OWN = {
    "--references": DIR | {"help": "search these pictures, without a run; with --serve a CSV list of PDQ hashes, too"},
    "--matches": DIR | {"help": "review what match.py wrote there (its --output)"},
    "--port": {"type": PORT, "default": 8765, "help": "port on 127.0.0.1; default 8765"},
    "--serve": FLAG | {"help": "with --index: instead of the page, search over HTTP"},
    "--index": DIR | {"help": "search this index, made by match.py"},
    "--checkpoint": FILE | {"help": "with --index: this network instead of a run"},
    "--onnx": FILE | {"help": "with --index: this ONNX file instead of a run"},
    "--threshold": OPTIONS["--threshold"] | {"help": "with --serve: lowest score of a copy"},
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = make_task_parser("explore", __doc__)
    add_options(options, [("--references", "--run", "--matches"), "--port", "--data", "--serve", "--index"], OPTIONS | OWN)
    add_options(options, [("--checkpoint", "--onnx"), *RULE], OPTIONS | OWN)
    return options


def check(options: argparse.Namespace) -> None:
    """Reject options that cannot be combined.

    Raises:
        UserError: with the options, the reason and the remedy.
    """
    network = options.checkpoint is not None or options.onnx is not None
    if options.serve and options.index is None:
        raise UserError(
            f"--serve searches an index: give one with --index DIR ({name_command('match')} add DIR --index DIR makes it)."
        )
    if options.serve and options.matches is not None:
        raise UserError("--serve answers programs, --matches shows a page to a person: one of the two.")
    if options.references is not None and options.index is not None and not (options.serve and is_hash_list(options.references)):
        raise UserError("--references and --index exclude each other: one set of pictures is searched.")
    if options.threshold is not None and not options.serve:
        raise UserError("--threshold goes with --serve; the page shows the calibrated one.")
    if network and (options.index is None or options.matches is not None):
        raise UserError("--checkpoint and --onnx name the network that made a kept index: name that too, with --index DIR.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says until Ctrl-C, and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser().parse_args(arguments)
    check(options)
    from image_copies.matching.web.app import serve  # imported here: --help must answer at once

    serve(partial(_open_router, options), options.port)
    return 0


def _open_router(options: argparse.Namespace) -> "tuple[APIRouter, str]":
    """Open what is to be served; return its routes and its title."""
    # imported here: a review needs no network
    if options.matches is not None:
        from image_copies.matching.review.routes import Review, review_router

        return review_router(Review(options.matches, options.index)), text_of(options.matches)
    from image_copies.matching.calibration import make_rule
    from image_copies.matching.explorer.answers import open_index_explorer
    from image_copies.matching.explorer.routes import explorer_router
    from image_copies.matching.explorer.service import SearchService, service_router
    from image_copies.matching.hash_lists import read_hash_lists
    from image_copies.pipeline.tools.run_explorer import open_explorer
    from image_copies.pipeline.tools.run_extractor import open_extractor

    if options.index is None:
        explorer = open_explorer(options.run, options.data, options.references, options.false_alarms)
        return explorer_router(explorer), explorer.title
    extractor = open_extractor(options.run, options.data, options.checkpoint, options.onnx)
    rule = make_rule(extractor, options.threshold, options.false_alarms, REFERENCES_PER_ANSWER)
    if options.serve:
        lists = None if options.references is None else read_hash_lists([options.references])
        service = SearchService(options.index, extractor, rule, lists)
        return service_router(service), f"{options.index}, {service.about()['references']} references"
    explorer = open_index_explorer(options.index, extractor, rule)
    return explorer_router(explorer), explorer.title


if __name__ == "__main__":
    with report_errors():
        main()
