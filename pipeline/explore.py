"""Pages on this machine: what match.py found, and a search of an index.

explore.py --matches DIR       go through the pairs and groups that match.py found: decide, choose which files to keep, carry out
explore.py --serve --index DIR search an index (match.py --index) over HTTP, for programs; with a page to try a picture
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, text_of
from image_copies.pipeline.run import cli

if TYPE_CHECKING:
    from fastapi import FastAPI


OWN = {
    "--matches": cli.DIR | {"help": "review what match.py wrote there (its --output)"},
    "--port": {"type": cli.PORT, "default": 8765, "help": "port on 127.0.0.1; default 8765"},
    "--serve": cli.FLAG | {"help": "with --index: search over HTTP"},
    "--megapixels": {"type": cli.at_least(1), "default": 50, "metavar": "N"}
    | {"help": "with --serve: most that a picture may have that is sent, half of all at once; default 50"},
    "--index": cli.DIR | {"help": "search this index, made by match.py"},
    "--checkpoint": cli.OPTIONS["--checkpoint"] | {"help": "with --index: this network instead of a run"},
    "--with": cli.OPTIONS["--with"] | {"help": "with --index: the network that was joined"},
    "--threshold": cli.OPTIONS["--threshold"] | {"help": "with --serve: lowest score of a copy"},
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = cli.make_task_parser("explore", __doc__)
    cli.add_options(
        options,
        [("--matches", "--serve"), "--port", "--run", "--data", "--index"],
        cli.OPTIONS | OWN,
    )
    cli.add_options(options, ["--checkpoint", "--with", *cli.RULE, "--megapixels"], cli.OPTIONS | OWN)
    return options


def check(options: argparse.Namespace) -> None:
    """Reject options that cannot be combined.

    Raises:
        UserError: with the options, the reason and the remedy.
    """
    if options.serve and options.index is None:
        raise UserError(
            f"--serve searches an index: give one with --index DIR ({name_command('match')} add DIR --index DIR makes it)."
        )
    for name in ("threshold", "checkpoint", "joined", "run"):
        if getattr(options, name) is not None and not options.serve:
            raise UserError(f"--{name.replace('joined', 'with')} goes with --serve.")
    if not options.serve and options.matches is None:
        raise UserError(
            "nothing is to be shown. Give --matches DIR to review a search, or --serve --index DIR to search an index."
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says until Ctrl-C, and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser().parse_args(arguments)
    check(options)
    from image_copies.matching.show.web import serve  # imported here: --help must answer at once

    serve(partial(_open_app, options), options.port)
    return 0


def _open_app(options: argparse.Namespace) -> "tuple[FastAPI, str]":
    """Open what is to be served; return its application and its title."""
    # imported here: a review needs no network
    if options.matches is not None:
        from image_copies.matching.show.routes import review_app

        return review_app(options.matches, options.index), text_of(options.matches)
    from threadpoolctl import threadpool_limits

    from image_copies.matching.extractor import make_rule
    from image_copies.matching.show.service import SearchService, service_app
    from image_copies.pipeline.tools.networks import open_extractor

    threadpool_limits(1, user_api="blas")  # requests share the cores, and products are small
    extractor = open_extractor(options.run, options.data, options.checkpoint, options.joined)
    rule = make_rule(extractor, options.threshold, options.false_alarms)
    service = SearchService(options.index, extractor, rule, 10**6 * options.megapixels)
    return service_app(service), f"{options.index}, {service.count_references()} references"


if __name__ == "__main__":
    with cli.report_errors():
        main()
