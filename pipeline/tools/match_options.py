"""match.py's command lines: a search or comparison, or a task that the first word names, each with its own options."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import is_folder
from image_copies.data.sources.archives import is_archive
from image_copies.matching.files.keeping import KEEP_RULES, read_rules

from ..run import cli

A_SOURCE = "a SOURCE is a folder, a tar, zip, Parquet or Arrow file of pictures, a picture or @list.txt, here or at s3://…"
APPLY_CHOICES = ("move", "hardlink", "symlink", "delete-to-trash")
PLACES: dict[str, Any] = {"type": cli.named_place, "nargs": "+"}
OPTIONS: cli.Table = {
    **cli.OPTIONS,
    "pictures": {
        "type": cli.named_place,
        "nargs": "*",
        "metavar": "PICTURE",
        "help": "two files: are they copies? Or folders",
    },
    "sets": PLACES
    | {"metavar": "SET", "help": "sources of pictures; of copies across sets the last one keeps its own"},
    "pair": PLACES | {"nargs": 2, "metavar": "PICTURE"},
    "word": {"choices": ("copy", "not-a-copy", "undecided"), "help": "undecided takes the decision back"},
    "sources": PLACES | {"metavar": "SOURCE"},
    "paths": PLACES | {"metavar": "PATH"},
    "--queries": cli.SOURCES | {"help": "pictures that may be copies"},
    "--references": cli.SOURCES
    | {"help": "pictures that may have been copied, or CSV lists of PDQ hashes"},
    "--read-only": cli.SOURCES
    | {"help": "nothing in these is ever changed; they are searched if they are sources, too"},
    "--show": cli.FILE | {"help": "with two pictures: one laid on the other, and what differs"},
    "--index": cli.DIR | {"help": "an index of references, which `add` makes, and which keeps decisions"},
    "--unrelated": cli.SOURCES
    | {"help": "calibrate on these pictures, which must not be copies of each other"},
    "--verify": {"type": cli.at_least(0), "nargs": "?", "const": 10, "metavar": "K"}
    | {
        "help": "confirm each query's K nearest references (10) by local features; default: for up to 50,000 pictures"
    },
    "--no-verify": {
        "dest": "verify",
        "action": "store_const",
        "const": 0,
        "help": "search by the vectors alone",
    },
    "--views": {"action": argparse.BooleanOptionalAction}
    | {"help": "search with views of unsure pictures and pictures on pages, too; default: as for --verify"},
    "--keep": {"nargs": "+", "default": ["largest"], "metavar": "RULE"}
    | {
        "help": f"which file of a group to keep: {', '.join(KEEP_RULES)}; path:PATTERN, such as 'path:originals/*': first these"
    },
    "--remove-references": cli.FLAG | {"help": "let the plan remove references, too; without it they stay"},
    "--apply": {
        "choices": APPLY_CHOICES,
        "help": "carry out OUTPUT/plan.csv, which a search wrote; `--apply move --help`",
    },
    "--undo": cli.FLAG | {"help": "undo what --apply did"},
    "--to": cli.DIR | {"help": "with --apply move; default: OUTPUT/moved"},
    "--merge-metadata": cli.FLAG
    | {
        "help": "write date, place, captions, keywords … that only a copy has into an XMP sidecar of the kept file"
    },
    "--output": cli.DIR | {"default": Path("matches"), "help": "default: matches"},
    "--quiet": cli.FLAG | {"help": "no messages"},
}
SEARCH = (
    *("search:", ("--verify", "--no-verify"), "--views"),
    *("network and threshold:", *cli.NETWORK, *cli.RULE, "--unrelated"),
    *("groups, and what to do with them:", "--keep", "--remove-references"),
    "--read-only",
)
# What each task takes. A first word names the task; two are named by their option, and a search by nothing.
TASKS: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "": (
        "pictures",
        f"pictures ({A_SOURCE}):",
        "--queries",
        "--references",
        "--index",
        "--show",
        *SEARCH,
        "--apply",
        "--undo",
    ),
    "--apply": ("--apply", "--to", "--merge-metadata", "--read-only", "--index"),
    "--undo": ("--undo",),
    "leakage": ("sets", *SEARCH),
    "decide": ("pair", "word", "--index"),
    "decisions": ("--index",),
    "add": ("sources", "--index", *cli.NETWORK),
    "remove": ("paths", "--index"),
    "check": ("--index",),
}
WITH_INDEX = ("add", "remove", "check")


def parse_line(words: Sequence[str], description: str | None = None) -> tuple[str, argparse.Namespace]:
    """Return the task that match.py's command line asks for, and its options.

    Raises:
        UserError: options do not go together: which, and the remedy.
    """
    named = [word.partition("=")[0] for word in words]
    of_word = words[0] if words and words[0].isalpha() and words[0] in TASKS else ""
    task = of_word or next((task for task in ("--apply", "--undo") if task in named), "")
    parser = cli.make_task_parser("match", description)
    parser.prog = f"{parser.prog} {task}".removesuffix(" ")
    parser.set_defaults(sets=[], pictures=[], queries=[], references=[], index=None, to=None)
    cli.add_options(
        parser, [*TASKS[task], "results and messages:", "--output", "--json", "--quiet"], OPTIONS
    )
    options = parser.parse_args(words[bool(of_word) :])
    if task in WITH_INDEX and options.index is None:
        parser.error("the index is missing: give it with --index DIR")
    if task in ("", "leakage"):
        options.keep = read_rules(options.keep)  # before a folder that follows it is missed
    if task == "":
        _check_pictures(options)
    if task == "leakage" and len(set(map(os.path.realpath, options.sets))) < 2:
        parser.error("give at least two different sets, such as: train val test")
    if options.to is not None and options.apply != "move":
        parser.error(
            f"--to is the destination of --apply move: omit it, or replace --apply {options.apply} by --apply move"
        )
    return task, options


def is_comparison(options: argparse.Namespace) -> bool:
    """Whether a search is of two pictures alone, which are compared with each other."""
    return len(_list_alone(options)) == 2


def _list_alone(options: argparse.Namespace) -> list[Path]:
    """Return the pictures that are given without anything to search for or in; none beside folders, archives and lists."""
    around = options.queries or options.references or options.index
    folders = (os.fspath(p).startswith("@") or is_archive(p) or is_folder(p) for p in options.pictures)
    return [] if around or any(folders) else options.pictures


def _check_pictures(options: argparse.Namespace) -> None:
    alone = _list_alone(options)
    if not options.pictures and not options.queries:
        raise UserError(
            f"nothing to do: give folders to search, or two pictures to compare; {name_command('match')} --help says what else."
        )
    if len(alone) == 1 and alone[0].exists():
        raise UserError(
            "got one picture: give a second one to compare it with, or search for it with --references or --index."
        )
    if options.index is not None and any(source.suffix.lower() != ".csv" for source in options.references):
        raise UserError(
            "--references cannot be combined with --index: add the folder to the index with add DIR --index DIR."
        )
    if options.verify == 0 and len(alone) == 2:
        raise UserError("--no-verify is for searches: two pictures are compared by their pixels.")
    if options.show is not None and len(alone) != 2:
        raise UserError(
            "--show shows how two pictures lie on each other: give it with two pictures, as A.jpg B.jpg --show FILE."
        )
