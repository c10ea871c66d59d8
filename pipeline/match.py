"""Find copies of pictures in folders, group them, and remove them if you wish.

match.py A.jpg B.jpg                        are they copies? Exit code 0: yes, 1: no, 2: error.
match.py --queries DIR …                    copies within the folders; with --references DIR …, only copies of those.
match.py --apply move|hardlink|symlink|delete-to-trash   carry out the plan that a search wrote; --undo takes it back.
match.py --leakage train val test           which pictures the sets share, and cleaned lists of files.
match.py A.jpg B.jpg --decide not-a-copy    your judgement, which overrides later searches; --decisions lists them.
match.py --index DIR --add DIR …            keep an index of references; only new contents are embedded.
match.py --index DIR --remove PATH …        remove files, or everything below a folder, from it.
match.py --index DIR --queries DIR          search it.
"""

import argparse
import sys
from collections.abc import Sequence

from pipeline.cluster.options import use_ray
from pipeline.run.cli import report_errors
from pipeline.tools.match_options import check, make_parser
from pipeline.tools.match_output import Output


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser(__doc__).parse_args(arguments)
    check(options)
    output = Output(options.json, options.quiet)
    done = _without_network(options, output)
    if done is not None:
        return done
    with use_ray(options.ray, options.ray_gpu, output.say):
        return _with_network(options, output)


def _without_network(options: argparse.Namespace, output: Output) -> int | None:
    """Do what needs no network and return the exit code; None where one is needed."""
    # imported here: --help must answer at once
    from pipeline.tools import match_acting, match_decisions

    if options.undo:
        return match_acting.take_back(options.output, output)
    if options.apply is not None:
        return match_acting.carry_out(options.output, options.plan, options.apply, options.to, options.protect, output)
    if options.decisions:
        match_decisions.list_decisions(match_decisions.find_index(options.index, options.output), output)
        return 0
    if options.decide is not None:
        place, (first, second) = match_decisions.find_index(options.index, options.output), options.pictures
        if options.decide == "undecided":
            return match_decisions.forget(place, first, second, output)
        match_decisions.remember(place, first, second, options.decide == "copy", output)
        return 0
    return None


def _with_network(options: argparse.Namespace, output: Output) -> int:
    """Compare two pictures, change an index, or search; return the exit code."""
    # imported here: the networks take seconds
    from pipeline.tools import match_command, match_model, match_two
    from pipeline.tools.match_groups import Grouping
    from pipeline.tools.match_sources import Sources, find_pictures

    if options.pictures and (verdict := match_two.compare_bytes(options.pictures[0], options.pictures[1])):
        return match_two.report(verdict, options.pictures[0], options.pictures[1], output)
    sources = Sources(options.queries or options.leakage, options.references, options.protect, options.add, options.no_self)
    pictures = find_pictures(sources, options.output, output)
    match_command.check_index(options.index, pictures.added is not None, output)
    model = match_model.open_model(options.run, options.data, options.checkpoint, options.onnx)
    if not sources.queries and not options.pictures:
        match_command.change_index(model, options.index, pictures.added, options.remove, output)
        return 0

    rule = match_model.make_rule(model, options.threshold, options.false_alarms, options.most, options.unrelated)
    if options.pictures:
        first, second = options.pictures
        return match_two.report(match_two.compare(model, rule, first, second, bool(options.verify)), first, second, output)
    settings = match_command.SearchSettings(
        sources,
        rule,
        options.output,
        options.index,
        options.remove,
        Grouping(options.keep, bound=options.group_size, hub_matches=options.hub_matches),
        options.verify,
        options.matching_track,
        options.leakage,
        options.exact,
    )
    match_command.search(model, settings, pictures, output)
    return 0


if __name__ == "__main__":
    with report_errors():
        sys.exit(main())
