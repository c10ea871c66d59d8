"""What a search reports: messages, JSON lines, CSV files and the gallery."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from image_copies.data.commands import name_command
from image_copies.data.decode import list_unreadable
from image_copies.data.errors import line_of, text_of
from image_copies.matching.files.plan import PlanRow, list_companions, write_plan
from image_copies.matching.groups.components import MAX_COMPONENT_PAIRS
from image_copies.matching.groups.planning import Grouped
from image_copies.matching.groups.series import list_series
from image_copies.matching.matches import (
    Match,
    Matches,
    Rule,
    describe_count,
    match_values,
    write_matches_csv,
)
from image_copies.matching.output import Output, count
from image_copies.matching.results.folder import (
    CUTS,
    GALLERY,
    GROUPS,
    HUBS,
    MATCHES,
    PLAN,
    STACK_LIST,
    STACKS,
    UNREADABLE,
)
from image_copies.matching.results.gallery import write_matches_page
from image_copies.matching.results.tables import (
    write_cuts_csv,
    write_groups_csv,
    write_hubs_csv,
    write_stacks,
)


def write_results(
    folder: Path,
    matches: Matches,
    grouped: Grouped | None,
    rule: Rule,
    output: Output,
    stacks: bool = False,
    sources: Sequence[Path] = (),
) -> None:
    """Write the pairs, the groups and the gallery, and say what they hold.

    Without groups, because nothing decides what is a copy, an older plan is removed; so it is with `stacks`, which are written
    for a gallery instead of a plan. The gallery's names are relative to `sources`.

    Raises:
        UserError: The disk is full.
    """
    if grouped is not None and stacks:
        grouped = replace(grouped, rows=[_leave(row) for row in grouped.rows])
    write_matches_csv(folder / MATCHES, matches)
    page = write_matches_page(folder / GALLERY, matches, rule, grouped, sources)
    for name in (PLAN, STACKS, STACK_LIST, *((GROUPS, CUTS, HUBS) if grouped is None else ())):
        (folder / name).unlink(missing_ok=True)  # of an earlier search: --apply must not carry that out
    if grouped is not None and not stacks:
        _write_plan(folder, grouped.rows, output)
    if matches.references or not matches.hashes:
        output.say(
            f"{matches.queries} queries, {matches.references} different references; {describe_count(matches)} "
            + _describe_decision(matches, rule),
            figures=grouped is not None,
        )
        output.say(
            "exact search: every query was compared with every reference"
            if matches.exact
            else "approximate search: the scores are exact, but a copy may have been missed; --exact compares all pairs",
            figures=matches.exact,
        )
    output.record(
        "search", {"exact": matches.exact, "queries": matches.queries, "references": matches.references}
    )
    report_unreadable(matches.unreadable, folder / UNREADABLE, output)
    for match in matches.pairs:
        output.record("match", match_values(match))
    if grouped is not None:
        _write_grouped(folder, grouped, list_series(matches.pairs, grouped.rows), output)
        if stacks:
            write_stacks(folder / STACKS, folder / STACK_LIST, grouped.copies)
            output.say(
                f"stacks: {folder / STACK_LIST} and {folder / STACKS}; no plan was written, and no file is to be removed"
            )
    output.say(f"matches: {folder / MATCHES}\ngallery: {page}")


def write_track(path: Path, pairs: Sequence[Match], output: Output) -> None:
    """Write the matching track's CSV; confirmed pairs come before all others, by how many features agree.

    Raises:
        UserError: The disk is full.
    """
    from image_copies.submissions.formats.matching_track import write_pairs  # imported here: rarely asked for

    rows = [
        (
            match.query.stem,
            match.reference.stem,
            float(match.evidence.inliers) if match.evidence else match.score,
        )
        for match in pairs
    ]
    output.say(f"matching track: {path}, {write_pairs(path, rows)} pairs")


def report_unreadable(images: Sequence[Path], listed: Path, output: Output) -> None:
    """List the pictures that cannot be decoded, each with its reason, and say how many there are.

    Raises:
        UserError: The disk is full.
    """
    list_unreadable(listed, images)
    for image in images:
        output.record("unreadable", {"file": image})
    if images:
        count, first = len(images), line_of(images[0])
        output.say(
            f"images that cannot be read and match nothing: {count}, the first is {first}; all, with reasons: {listed}"
        )


def _describe_decision(matches: Matches, rule: Rule) -> str:
    if matches.threshold is None and not matches.verified:
        return "listed; nothing calibrates a threshold here, so there are no groups: add --unrelated DIR or --threshold"
    confirmed = f"{sum(match.evidence is not None for match in matches.pairs)} confirmed by their features"
    if matches.threshold is None:
        return f"({confirmed})"
    alarms = (
        ""
        if rule.score is not None
        else f"; {rule.rate:g} false alarms per query to be expected of unrelated pictures"
    )
    return f"({confirmed}, the others of at least {matches.threshold:.3f}{alarms})"


def _leave(row: PlanRow) -> PlanRow:
    return replace(row, action="leave") if row.action in ("remove", "review") else row


def _write_grouped(folder: Path, grouped: Grouped, series: Sequence[Sequence[Path]], output: Output) -> None:
    """Write groups.csv, cuts.csv and hubs.csv, and say what they and the series hold."""
    write_groups_csv(folder / GROUPS, grouped.copies)
    write_cuts_csv(folder / CUTS, grouped.groups.cuts)
    write_hubs_csv(folder / HUBS, grouped.groups.hubs)
    if series:
        pictures = f"{len(series)} series of {sum(map(len, series))} pictures that were taken in a row"
        output.say(f"{pictures}, with the sharpest of each: {folder / MATCHES}; nothing is planned for them")
    for number, group in enumerate(grouped.copies, 1):
        output.record(
            "group", {"group": number, "files": group, "keep": group[0], "removable": group.removable}
        )
    if not (grouped.groups.groups or grouped.groups.cuts or grouped.groups.hubs or grouped.groups.flat):
        return
    output.say(
        f"groups of certain copies: {folder / GROUPS}"
        + (
            f"; {len(grouped.groups.cuts)} links that join no group: {folder / CUTS}"
            if grouped.groups.cuts
            else ""
        )
    )
    if grouped.groups.flat:
        first = grouped.groups.flat[0]
        output.say(
            f"pictures that show nothing, kept apart: {len(grouped.groups.flat)}, the first is {first}"
        )
    if grouped.groups.dropped:
        output.say(
            f"{grouped.groups.dropped:,} of the lowest-scoring pairs were not considered: more than {MAX_COMPONENT_PAIRS:,} are "
            "connected with each other, as a loose threshold does. A stricter --threshold separates them"
        )
    if hubs := grouped.groups.hubs:
        for hub in hubs:
            output.record("hub", {"files": hub.content, "matches": hub.matches, "related_share": hub.related})
        output.say(
            f"pictures that match many others which do not match each other, kept apart: {folder / HUBS} ({len(hubs)}); "
            f"{text_of(hubs[0].content[0])} matches {hubs[0].matches}"
        )


def _write_plan(folder: Path, rows: Sequence[PlanRow], output: Output) -> None:
    """Write plan.csv, and say what it would do."""
    write_plan(folder / PLAN, rows)
    removed = [row for row in rows if row.action == "remove"]
    reviewed = sum(row.action == "review" for row in rows)
    untouched = {row.file for row in rows if row.protected}  # nothing is written beside them either
    merged = sum(row.action == "review" and bool(row.merged) and row.kept not in untouched for row in rows)
    freed = sum(row.facts.size for row in removed if row.facts is not None)
    belonging = sum(len(list_companions(row)) for row in removed)
    place = "" if folder == Path("matches") else f" --output {shlex.quote(text_of(folder))}"
    output.say(
        (f"{len(removed)} can go ({freed / 1e6:.1f} MB)" if removed else "nothing can go")
        + (f" and {belonging} that belong to them" if belonging else "")
        + f", {reviewed} to look at"
        + (f" ({merged} only for notes such as captions, which --merge-metadata keeps)" if merged else "")
        + (
            f", in {count(len({row.group for row in rows}), 'group')} of {count(len(rows), 'file')}"
            if rows
            else ""
        )
    )
    if removed:
        carried_out = f"{name_command('match')} --apply move|hardlink|symlink|delete-to-trash{place}"
        output.say(f"plan: {folder / PLAN}; nothing has been touched. Carry it out with: {carried_out}")
