"""match.py's options, and which of them cannot be combined."""

import argparse
import os
from pathlib import Path

from image_copies.data.archives import is_archive
from image_copies.data.commands import describe_command, name_command
from image_copies.data.errors import UserError
from image_copies.data.files import is_folder
from image_copies.matching.files.keeping import KEEP_RULES, read_rules
from image_copies.matching.groups.hubs import MIN_HUB_MATCHES
from image_copies.pipeline.cluster.options import add_ray_options
from image_copies.pipeline.run.cli import CommandParser, add_data_option, named_path, named_place

APPLY_CHOICES = ("move", "hardlink", "symlink", "delete-to-trash")
SHOWN_AS = (".png", ".jpg", ".webp")
SOURCE = "SOURCE"  # metavariable of the help


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of match.py's command line."""
    options = CommandParser(
        prog=name_command("match"),
        description=describe_command(description),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "pictures", type=named_place, nargs="*", metavar="PICTURE", help="two files: are they copies? Or folders: --queries"
    )
    _add_sources(
        options.add_argument_group(
            "pictures (a SOURCE is a folder, a tar, zip, Parquet or Arrow file of pictures, a picture or @list.txt, here or at s3://…)"
        )
    )
    _add_index(options.add_argument_group("a kept index"))
    _add_model(options.add_argument_group("network and threshold"))
    _add_groups(options.add_argument_group("groups, and what to do with them"))
    options.add_argument(
        "--show", type=named_path, metavar="FILE", help="with two pictures: one laid on the other, and what differs, as a picture"
    )
    options.add_argument("--output", type=named_path, default=Path("matches"), metavar="DIR", help="default: matches")
    options.add_argument("--json", action="store_true", help="results as JSON lines; messages go to standard error")
    options.add_argument("--quiet", action="store_true", help="no messages")
    add_ray_options(options)
    return options


def _add_sources(options: argparse._ArgumentGroup) -> None:
    options.add_argument("--queries", type=named_place, nargs="+", metavar=SOURCE, default=[], help="pictures that may be copies")
    options.add_argument(
        "--references", type=named_place, nargs="+", metavar=SOURCE, default=[], help="pictures that may have been copied"
    )
    options.add_argument("--protect", type=named_place, nargs="+", metavar=SOURCE, default=[], help="searched, but never touched")
    options.add_argument(
        "--read-only", type=named_path, nargs="+", metavar="DIR", default=[], help="folders in which nothing is ever changed"
    )
    options.add_argument(
        "--leakage", type=named_place, nargs="+", metavar="SET", default=[], help="copies within and across train, val, test, …"
    )
    options.add_argument("--no-self", action="store_true", help="report no pairs within one source")


def _add_index(options: argparse._ArgumentGroup) -> None:
    options.add_argument("--index", type=named_path, metavar="DIR", help="an index of references; created if it is new")
    options.add_argument("--add", type=named_place, nargs="+", metavar=SOURCE, default=[], help="with --index: add pictures")
    options.add_argument(
        "--remove", type=named_place, nargs="+", metavar="PATH", default=[], help="with --index: remove files or folders"
    )
    options.add_argument("--check", action="store_true", help="with --index: read it whole, and compare it with its checksums")


def _add_model(options: argparse._ArgumentGroup) -> None:
    options.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    add_data_option(options)
    options.add_argument("--checkpoint", type=named_path, metavar="FILE", help="use this checkpoint instead of a run")
    options.add_argument("--onnx", type=named_path, metavar="FILE", help="use this .onnx (export.py) instead of a run")
    options.add_argument(
        "--false-alarms", type=float, default=0.001, metavar="RATE", help="expected per query that copies nothing; default 0.001"
    )
    options.add_argument("--threshold", type=float, metavar="SCORE", help="lowest score of a copy, instead of --false-alarms")
    options.add_argument(
        "--unrelated",
        type=named_place,
        nargs="+",
        metavar=SOURCE,
        default=[],
        help="calibrate on these pictures, which must not be copies of each other",
    )
    verification = options.add_mutually_exclusive_group()
    verification.add_argument(
        "--verify",
        type=int,
        nargs="?",
        const=10,
        metavar="K",
        help="confirm each query's K nearest references (10) by local features, and locate the shared region; default: for up "
        "to 50,000 pictures",
    )
    verification.add_argument("--no-verify", dest="verify", action="store_const", const=0, help="go by the vectors alone")
    options.add_argument(
        "--views",
        action=argparse.BooleanOptionalAction,
        help="search with crops, a turn and the negative of unsure pictures, too; default: as for --verify",
    )
    options.add_argument(
        "--matching-track", type=named_path, metavar="FILE", help="also write the pairs as the competition's CSV"
    )
    options.add_argument("--exact", action="store_true", help="compare with every reference, even in a large index")
    options.add_argument("--most", type=int, default=10, metavar="N", help="maximum number of references per query; default 10")


def _add_groups(options: argparse._ArgumentGroup) -> None:
    options.add_argument(
        "--keep",
        nargs="+",
        default=["largest"],
        metavar="RULE",
        help=f"which file of a group to keep: {', '.join(KEEP_RULES)}; default largest. path:PATTERN before it, such as "
        "'path:originals/*': files whose path matches come first",
    )
    options.add_argument(
        "--stack", action="store_true", help="write the groups as stacks.json and stacks.csv, for a gallery; plan no removal"
    )
    options.add_argument(
        "--remove-references", action="store_true", help="let the plan remove references, too; without it they stay"
    )
    options.add_argument("--group-size", type=int, default=200, metavar="N", help="maximum size of a group; default 200")
    options.add_argument(
        "--hub-matches",
        type=int,
        default=MIN_HUB_MATCHES,
        metavar="N",
        help="matches from which a picture that unrelated ones match, such as a logo, is kept apart; default 50",
    )
    options.add_argument(
        "--decide", choices=("copy", "not-a-copy", "undecided"), help="decide about two pictures, for all later searches"
    )
    options.add_argument("--decisions", action="store_true", help="list all decisions")
    options.add_argument("--apply", choices=APPLY_CHOICES, help="carry out OUTPUT/plan.csv, which a search wrote")
    options.add_argument("--plan", type=named_path, metavar="FILE", help="with --apply: use this plan instead")
    options.add_argument("--to", type=named_path, metavar="DIR", help="with --apply move; default: OUTPUT/moved")
    options.add_argument(
        "--merge-metadata",
        action="store_true",
        help="with --apply: write date, place, captions, keywords … that only a copy has into an XMP sidecar of the kept file",
    )
    options.add_argument("--undo", action="store_true", help="undo what --apply did")


def search_folders(options: argparse.Namespace) -> None:
    """Search the sources that are given without an option, as with --queries, unless they are two pictures to compare.

    A single picture is searched for where references are named.
    """
    given = options.pictures
    if options.decide is not None or (len(given) == 2 and not any(map(_holds_pictures, given))):
        return
    if len(given) > 1 or options.references or options.index is not None or any(map(_holds_pictures, given)):
        options.queries, options.pictures = [*given, *options.queries], []


def _holds_pictures(source: Path) -> bool:
    """Whether a source is a folder, an archive or a list, not a picture."""
    return os.fspath(source).startswith("@") or is_archive(source) or is_folder(source)


def check(options: argparse.Namespace) -> None:
    """Reject options that cannot be combined, and values out of range.

    Raises:
        UserError: with the options, the reason and the remedy.
    """
    changes = bool(options.add or options.remove)
    acts = options.apply is not None or options.undo
    if options.leakage and (options.queries or options.references or options.index is not None):
        raise UserError("--leakage takes the sets itself: omit --queries, --references and --index.")
    if options.leakage and len(set(map(os.path.realpath, options.leakage))) < 2:
        raise UserError("--leakage needs at least two different sets, such as: --leakage train val test.")
    if options.decide is not None and len(options.pictures) != 2:
        raise UserError(
            f"--decide {options.decide} needs two pictures, got {len(options.pictures)}: "
            f"{name_command('match')} A.jpg B.jpg --decide {options.decide}"
        )
    if options.apply is None and (options.to is not None or options.plan is not None or options.merge_metadata):
        raise UserError("--to, --plan and --merge-metadata go with --apply: add --apply move, or omit them.")
    if options.stack and options.remove_references:
        raise UserError("--stack plans no removal, --remove-references plans one of references: give one of the two.")
    if options.check and (options.index is None or changes or acts or options.pictures or options.queries):
        raise UserError("--check reads an index and does nothing else: give it with --index DIR alone.")
    if options.show is not None and (len(options.pictures) != 2 or options.decide is not None):
        raise UserError(
            "--show shows how two pictures lie on each other: give it with two pictures alone, as A.jpg B.jpg --show FILE."
        )
    if options.show is not None and options.show.suffix.lower() not in SHOWN_AS:
        raise UserError(f"--show {options.show}: give a name that ends in {', '.join(SHOWN_AS)}.")
    if options.check or options.decisions or options.decide is not None:
        return
    if options.pictures:
        _check_two(options, changes or acts)
    elif acts:
        _check_acting(options, changes)
    elif changes and options.index is None:
        raise UserError("--add and --remove change an index: give it with --index DIR.")
    elif not options.queries and not options.leakage and not changes:
        raise UserError(
            "nothing to do: give folders to search, or two pictures to compare, or change an index with --index DIR and --add or "
            "--remove."
        )
    if options.references and options.index is not None:
        raise UserError("--references cannot be combined with --index: add the folder to the index with --index DIR --add DIR.")
    if options.checkpoint is not None and options.onnx is not None:
        raise UserError("--checkpoint and --onnx cannot be combined: give one network.")
    if not 0 < options.false_alarms < 1:
        raise UserError(f"--false-alarms {options.false_alarms}: give a rate per query between 0 and 1, such as 0.001.")
    if options.threshold is not None and not options.threshold <= 0:
        raise UserError(f"--threshold {options.threshold}: scores are −‖q − r‖², at most 0; give a number such as -0.5.")
    if options.most < 1:
        raise UserError(f"--most {options.most}: give at least 1.")
    if options.verify is not None and options.verify < 0:
        raise UserError(f"--verify {options.verify}: give the number of references to confirm for each query, such as 10.")
    read_rules(options.keep)
    if options.group_size < 2:
        raise UserError(f"--group-size {options.group_size}: give at least 2.")
    if options.hub_matches < 2:
        raise UserError(f"--hub-matches {options.hub_matches}: give at least 2.")


def _check_two(options: argparse.Namespace, other_work: bool) -> None:
    if len(options.pictures) != 2:
        for picture in options.pictures:
            if not picture.exists():
                raise UserError(f"{picture}: there is no such file or folder.")
        raise UserError("got one picture: give a second one to compare it with, or search for it with --references or --index.")
    if other_work or options.queries or options.references or options.index is not None:
        raise UserError("two pictures are compared without --queries, --references, --index, --apply and --undo: omit these.")


def _check_acting(options: argparse.Namespace, changes: bool) -> None:
    if options.apply is not None and options.undo:
        raise UserError("--apply and --undo cannot be combined: give one of them.")
    if options.queries or options.references or changes:
        raise UserError(
            "--apply and --undo take no folders: search first, which writes a plan, and carry it out with a second command."
        )
    if options.to is not None and options.apply != "move":
        raise UserError(f"--to is the destination of --apply move: omit it, or replace --apply {options.apply} by --apply move.")
