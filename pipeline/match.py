"""Find copies of pictures in folders, group them, and remove them if you wish.

match.py DIR …                              copies within the folders; as --queries DIR …
match.py --queries DIR --references DIR …   copies of the references alone.
match.py A.jpg B.jpg                        are they copies? Exit code 0: yes, 1: no, 2: error; --show OUT.png to see it.
match.py --apply move|hardlink|symlink|delete-to-trash   carry out the plan that a search wrote; --undo takes it back.
match.py --leakage train val test           which pictures the sets share, and cleaned lists of files.
match.py A.jpg B.jpg --decide not-a-copy    your judgement, which overrides later searches; --decisions lists them.
match.py --index DIR --add DIR …            keep an index of references; only new contents are embedded.
match.py --index DIR --remove PATH …        remove files, or everything below a folder, from it.
match.py --index DIR --queries DIR          search it.
match.py --index DIR --check                read it whole and compare it with its checksums. Exit code 1: a file is damaged.
"""

import argparse
import sys
from collections.abc import Sequence

from image_copies.matching.output import Output
from image_copies.pipeline.cluster.options import use_ray
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.tools.match_options import check, make_parser, search_folders


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser(__doc__).parse_args(arguments)
    search_folders(options)
    check(options)
    output = Output(options.json, options.quiet)
    done = _without_network(options, output)
    if done is not None:
        return done
    with output.silence(), use_ray(options.ray, options.ray_gpu, output.say):
        return _with_network(options, output)


def _without_network(options: argparse.Namespace, output: Output) -> int | None:
    """Do what needs no network and return the exit code; None where one is needed."""
    # imported here: --help must answer at once
    from image_copies.matching.commands import applying, checking, deciding

    if options.undo:
        return applying.take_back(options.output, output)
    if options.apply is not None:
        guarded = [*options.protect, *options.read_only]
        asked = options.output, options.plan, options.index, options.apply, options.to, guarded
        return applying.carry_out(*asked, output, options.merge_metadata)
    if options.check:
        return checking.check_bytes(options.index, output)
    if options.decisions:
        deciding.list_decisions(deciding.find_index(options.index, options.output), output)
        return 0
    if options.decide is not None:
        place, (first, second) = deciding.find_index(options.index, options.output), options.pictures
        return deciding.decide(place, first, second, options.decide, output)
    return None


def _with_network(options: argparse.Namespace, output: Output) -> int:
    """Compare two pictures, change an index, or search; return the exit code."""
    # imported here: the networks take seconds
    from image_copies.data.targets import check_target
    from image_copies.matching.calibration import make_rule
    from image_copies.matching.commands import comparing, searching
    from image_copies.matching.commands.sources import Sources, find_pictures
    from image_copies.matching.files.keeping import read_rules
    from image_copies.matching.groups.planning import GroupSettings
    from image_copies.pipeline.run.provenance import describe_origin
    from image_copies.pipeline.tools.run_extractor import open_extractor

    if options.pictures and (verdict := comparing.compare_bytes(options.pictures[0], options.pictures[1])):
        return comparing.report(verdict, options.pictures[0], options.pictures[1], output, options.show)
    sources = Sources(
        *(options.queries or options.leakage, options.references, options.protect, options.add, options.no_self),
        read_only=options.read_only,
    )
    if options.matching_track is not None:
        from image_copies.submissions.formats.matching_track import is_matching_track

        read = [*sources.queries, *sources.references, *sources.protected, *sources.added]
        check_target(options.matching_track, "--matching-track", {".csv": is_matching_track}, read)
    pictures = find_pictures(sources, options.output, output)
    searching.check_index(options.index, pictures.added is not None, output)
    extractor = open_extractor(options.run, options.data, options.checkpoint, options.onnx)
    if not sources.queries and not options.pictures:
        searching.change_index(extractor, options.index, pictures.added, options.remove, output)
        return 0

    rule = make_rule(extractor, options.threshold, options.false_alarms, options.most, options.unrelated)
    if options.pictures:
        first, second = options.pictures
        verdict = comparing.compare(extractor, rule, first, second, options.verify != 0)
        return comparing.report(verdict, first, second, output, options.show)
    settings = searching.SearchSettings(
        sources=sources,
        rule=rule,
        folder=options.output,
        index=options.index,
        removed=options.remove,
        grouping=GroupSettings(*read_rules(options.keep), bound=options.group_size, hub_matches=options.hub_matches),
        verified=options.verify,
        views=options.views,
        track=options.matching_track,
        sets=options.leakage,
        exact=options.exact,
        removes_references=options.remove_references,
        stacks=options.stack,
        made_by=describe_origin(),
    )
    searching.search(extractor, settings, pictures, output)
    return 0


if __name__ == "__main__":
    with report_errors():
        sys.exit(main())
