"""Find copies of pictures in folders, group them, and remove them if you wish.

match.py DIR …                              copies within the folders; as --queries DIR …
match.py --queries DIR --references DIR …   copies of the references alone.
match.py A.jpg B.jpg                        are they copies? Exit code 0: yes, 1: no, 2: error, 3: likely; --show OUT.png
match.py --apply move|hardlink|symlink|delete-to-trash   carry out the plan that a search wrote; --undo takes it back.
match.py leakage train val test             which pictures the sets share, and cleaned lists of files.
match.py decide A.jpg B.jpg not-a-copy      your judgement, which overrides later searches; decisions lists them.
match.py add DIR … --index DIR              keep an index of references; only new contents are embedded.
match.py remove PATH … --index DIR          remove files, or everything below a folder, from it.
match.py --queries DIR --index DIR          search it.
match.py check --index DIR                  read its database whole; the next search makes its other files again.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from image_copies.data.process import keep_freed_memory
from image_copies.matching.output import Output
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.tools.match_options import is_comparison, parse_line

if TYPE_CHECKING:
    from image_copies.matching.extractor import Extractor
    from image_copies.matching.matches import Rule


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    task, options = parse_line(sys.argv[1:] if arguments is None else arguments, __doc__)
    output = Output(options.json, options.quiet)
    if task in ("--apply", "--undo"):
        return _act(task, options, output)
    if task not in ("", "leakage", "add"):
        return _change_index(task, options, output)
    with output.silence(), output.say_how_far():
        if task == "add":
            return _add(options, output)
        return _compare(options, output) if is_comparison(options) else _search(options, output)


def _act(task: str, options: argparse.Namespace, output: Output) -> int:
    from image_copies.matching import results  # imported here, as below: --help must answer at once

    folder = options.output
    if task == "--undo":
        return results.report_outcome(folder, results.take_back(folder), "undo", output)
    outcome = results.carry_out(
        folder, options.apply, options.index, options.to, options.read_only, options.merge_metadata
    )
    return results.report_outcome(folder, outcome, options.apply, output)


def _change_index(task: str, options: argparse.Namespace, output: Output) -> int:
    from image_copies.matching.commands import indexing
    from image_copies.matching.results import find_index

    if task == "decide":
        place = find_index(options.index, options.output)
        first, second = options.pair
        return indexing.decide(place, first, second, options.word, output)
    if task == "decisions":
        indexing.list_decisions(find_index(options.index, options.output), output)
    elif task == "check":
        indexing.check(options.index, output)
    else:
        indexing.remove(options.index, options.paths, output)
    return 0


def _add(options: argparse.Namespace, output: Output) -> int:
    from image_copies.matching.commands import indexing
    from image_copies.pipeline.tools.networks import open_extractor

    pictures = indexing.find_added(options.index, options.sources, options.output, output)
    extractor = open_extractor(options.run, options.data, options.checkpoint, options.joined)
    indexing.add(options.index, extractor, pictures, output)
    return 0


def _compare(options: argparse.Namespace, output: Output) -> int:
    from image_copies.data.targets import check_target
    from image_copies.matching.commands import comparing
    from image_copies.matching.show.overlays import SHOWN_AS, is_sheet

    first, second = options.pictures
    if options.show is not None:
        check_target(options.show, "--show", dict.fromkeys(SHOWN_AS, is_sheet), (first, second))
    compared = comparing.compare_bytes(first, second)
    if compared is None:
        compared = comparing.compare(*_open_network(options), first, second)
    return comparing.report(compared, output, options.show)


def _search(options: argparse.Namespace, output: Output) -> int:
    from image_copies.matching.commands import searching
    from image_copies.matching.commands.sources import find_pictures
    from image_copies.matching.files.keeping import KeepSettings
    from image_copies.matching.index.store import require_index

    if options.index is not None:
        require_index(options.index)
    keep_freed_memory()
    queries = [*options.sets, *options.pictures, *options.queries]
    pictures = find_pictures(queries, options.references, options.read_only, options.output, output)
    extractor, rule = _open_network(options)
    settings = searching.SearchSettings(
        rule=rule,
        index=options.index,
        grouping=KeepSettings(*options.keep),
        verified=options.verify,
        views=options.views,
        sets=options.sets,
        removes_references=options.remove_references,
    )
    searching.search(extractor, settings, pictures, options.output, output)
    return 0


def _open_network(options: argparse.Namespace) -> "tuple[Extractor, Rule]":
    """Return what describes pictures, and when two of them count as copies."""
    from image_copies.matching.extractor import make_rule
    from image_copies.pipeline.tools.networks import open_extractor

    extractor = open_extractor(options.run, options.data, options.checkpoint, options.joined)
    return extractor, make_rule(extractor, options.threshold, options.false_alarms, options.unrelated)


if __name__ == "__main__":
    with report_errors():
        sys.exit(main())
