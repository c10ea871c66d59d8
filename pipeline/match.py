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

from image_copies.matching.output import Output
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.tools.match_options import is_comparison, is_hash_list, parse_line

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
    done = _without_network(task, options, output)
    if done is not None:
        return done
    with output.silence(), output.say_how_far():
        if task == "add":
            return _add(options, output)
        return _compare(options, output) if is_comparison(options) else _search(options, output)


def _without_network(task: str, options: argparse.Namespace, output: Output) -> int | None:
    """Do what needs no network and return the exit code; None where one is needed."""
    # imported here: --help must answer at once
    from image_copies.matching.commands import applying, indexing

    if task == "--undo":
        return applying.report(options.output, applying.take_back(options.output), "undo", output)
    if task == "--apply":
        asked = (
            options.output,
            options.apply,
            options.index,
            options.to,
            options.read_only,
            options.merge_metadata,
        )
        return applying.report(options.output, applying.carry_out(*asked), options.apply, output)
    if task == "check":
        return indexing.check(options.index, output)
    if task == "remove":
        return indexing.remove(options.index, options.paths, output)
    if task == "decisions":
        return indexing.list_decisions(indexing.find_index(options.index, options.output), output)
    if task == "decide":
        place = indexing.find_index(options.index, options.output)
        first, second = options.pair
        return indexing.decide(place, first, second, options.word, output)
    return None


def _add(options: argparse.Namespace, output: Output) -> int:
    # imported here, as below: the networks take seconds
    from image_copies.matching.commands import indexing
    from image_copies.pipeline.tools.run_extractor import open_extractor

    pictures = indexing.find_added(options.index, options.sources, options.output, output)
    extractor = open_extractor(options.run, options.data, options.checkpoint, options.joined)
    return indexing.add(options.index, extractor, pictures, output)


def _compare(options: argparse.Namespace, output: Output) -> int:
    from image_copies.data.targets import check_target
    from image_copies.matching.commands import comparing
    from image_copies.matching.results.overlays import SHOWN_AS, is_sheet

    first, second = options.pictures
    if options.show is not None:
        check_target(options.show, "--show", dict.fromkeys(SHOWN_AS, is_sheet), (first, second))
    verdict = comparing.compare_bytes(first, second)
    if verdict is None:
        verdict = comparing.compare(*_open_network(options), first, second)
    return comparing.report(verdict, output, options.show)


def _search(options: argparse.Namespace, output: Output) -> int:
    from image_copies.matching.commands import searching
    from image_copies.matching.commands.sources import Sources, find_pictures
    from image_copies.matching.files.keeping import KeepSettings, read_rules
    from image_copies.matching.index.store import require_index

    grouping = KeepSettings(*read_rules(options.keep))
    sources = Sources(
        queries=[*options.sets, *options.pictures, *options.queries],
        references=[path for path in options.references if not is_hash_list(path)],
        read_only=options.read_only,
        hash_lists=[path for path in options.references if is_hash_list(path)],
    )
    if options.index is not None:
        require_index(options.index)
    pictures = find_pictures(sources, options.output, output)
    extractor, rule = _open_network(options)
    settings = searching.SearchSettings(
        rule=rule,
        index=options.index,
        grouping=grouping,
        verified=options.verify,
        views=options.views,
        sets=options.sets,
        exact=options.exact,
        removes_references=options.remove_references,
    )
    searching.search(extractor, settings, pictures, options.output, output)
    return 0


def _open_network(options: argparse.Namespace) -> "tuple[Extractor, Rule]":
    """Return what describes pictures, and when two of them count as copies."""
    from image_copies.matching.commands.interface import MOST_REFERENCES
    from image_copies.matching.extractor import make_rule
    from image_copies.pipeline.tools.run_extractor import open_extractor

    extractor = open_extractor(options.run, options.data, options.checkpoint, options.joined)
    return extractor, make_rule(
        extractor, options.threshold, options.false_alarms, MOST_REFERENCES, options.unrelated
    )


if __name__ == "__main__":
    with report_errors():
        sys.exit(main())
