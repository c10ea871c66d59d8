"""What a search reports: messages, JSON lines, CSV files and the gallery."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from image_copies.data import commands, decode, ground_truth
from image_copies.data.errors import line_of, text_of
from image_copies.data.sources.walking import known_path

from .. import results
from ..files.plan import FACTS, PlanRow, list_companions, plan_values, write_plan
from ..groups.groups import MAX_COMPONENT_PAIRS, Hub
from ..groups.planning import CopyGroup, Grouped
from ..groups.series import list_series
from ..matches import Matches, Rule, describe_count, match_values, write_matches_csv
from ..output import Output, count
from .gallery import write_matches_page
from .leakage import report_folders, report_leakage


def write_results(
    folder: Path,
    matches: Matches,
    grouped: Grouped | None,
    rule: Rule,
    output: Output,
    sources: Sequence[Path] = (),
) -> None:
    """Write the pairs, the groups, the plan and the gallery, and say what they hold.

    Without groups, because nothing decides what is a copy, an older plan is removed. Names on the page are relative to `sources`.

    Raises:
        UserError: The disk is full.
    """
    for name in (results.PLAN, results.GROUPS, results.HUBS):
        (folder / name).unlink(missing_ok=True)  # of an earlier search: --apply must not carry that out
    write_matches_csv(folder / results.MATCHES, matches)
    page = write_matches_page(folder / results.GALLERY, matches, rule, grouped, sources)
    if grouped is not None:
        _write_plan(folder, grouped.rows, output)
    elif matches.references:
        output.say(
            f"{matches.queries} queries, {matches.references} different references; {describe_count(matches)} listed; nothing "
            "calibrates a threshold here, so there are no groups: add --unrelated DIR or --threshold"
        )
    counted = {"queries": matches.queries, "references": matches.references}
    output.record("search", counted | {"threshold": matches.threshold})
    report_unreadable(matches.unreadable, folder / results.UNREADABLE, output)
    for match in matches.pairs:
        output.record("match", match_values(match))
    if grouped is not None:
        _write_grouped(folder, grouped, list_series(matches.pairs, grouped.rows), output)
    output.say(f"matches: {folder / results.MATCHES}\ngallery: {page}")
    if matches.pairs:
        output.say(
            f"decide pairs and choose what to keep: {commands.name_review()} {shlex.quote(text_of(folder))}"
        )


def report_shares(
    folder: Path, matches: Matches, rule: Rule, sources: Sequence[Path], output: Output
) -> None:
    """Report the folders that share pictures, and what sets share if there are `sources` of any, by pairs that are called copies.

    Raises:
        UserError: The disk is full.
    """
    if not matches.decided:
        return
    pairs = [match for match in matches.pairs if match.is_copy]
    report_folders(folder, pairs, matches.digests, output)
    if sources:
        sets = list(map(known_path, sources))
        across = replace(matches, pairs=report_leakage(folder, pairs, matches.digests, sets, output))
        page = write_matches_page(folder / results.LEAKAGE_GALLERY, across, rule, sources=sets)
        output.say(f"the worst pairs across sets: {page}")


def report_unreadable(images: Sequence[Path], listed: Path, output: Output) -> None:
    """List the pictures that cannot be decoded, each with its reason, and say how many there are.

    Raises:
        UserError: The disk is full.
    """
    decode.list_unreadable(listed, images)
    for image in images:
        output.record("unreadable", {"file": image})
    if images:
        output.say(
            f"images that cannot be read and match nothing: {len(images)}, the first is {line_of(images[0])}; "
            f"all, with reasons: {listed}"
        )


def write_groups_csv(path: Path, groups: Iterable[CopyGroup]) -> None:
    """Write every group, numbered from 1: its files, what the plan suggests for each, and the class as a copy of the first.

    Raises:
        UserError: The disk is full.
    """
    columns = ["group", "file", "suggestion", "reason", "score", "class", "certainty", *FACTS]
    rows = [plan_values(row) | {"suggestion": row.action} for group in groups for row in group.rows]
    ground_truth.write_table(path, columns, ([values.get(name, "") for name in columns] for values in rows))


def _write_grouped(
    folder: Path, grouped: Grouped, series: Sequence[Sequence[Path]], output: Output
) -> None:
    """Write groups.csv and hubs.csv, and say what they and the series hold."""
    write_groups_csv(folder / results.GROUPS, grouped.copies)
    if series:
        pictures = f"{len(series)} series of {sum(map(len, series))} pictures that were taken in a row"
        place = folder / results.MATCHES
        output.say(f"{pictures}, with the sharpest of each: {place}; nothing is planned for them")
    for number, group in enumerate(grouped.copies, 1):
        known = {"group": number, "files": group, "keep": group[0], "removable": group.removable}
        output.record("group", known)
    if grouped.groups:
        output.say(f"groups of certain copies: {folder / results.GROUPS}")
    if grouped.flat:
        first = grouped.flat[0]
        output.say(f"pictures that show nothing, kept apart: {len(grouped.flat)}, the first is {first}")
    if grouped.dropped:
        output.say(
            f"{grouped.dropped:,} of the lowest-scoring pairs were not considered: more than {MAX_COMPONENT_PAIRS:,} are "
            "connected with each other, as a loose threshold does. A stricter --threshold separates them"
        )
    _write_hubs(folder / results.HUBS, grouped.hubs, output)


def _write_hubs(path: Path, hubs: Sequence[Hub[list[Path]]], output: Output) -> None:
    """List the files that match many others which do not match each other, the one with the most matches first."""
    rows = ([file, hub.matches, f"{hub.related:.4f}"] for hub in hubs for file in hub.content)
    ground_truth.write_table(path, ["file", "matches", "related_share"], rows)
    for hub in hubs:
        output.record("hub", {"files": hub.content, "matches": hub.matches, "related_share": hub.related})
    if hubs:
        most = hubs[0]
        output.say(
            f"pictures that match many others which do not match each other, kept apart: {path} "
            f"({len(hubs)}); {text_of(most.content[0])} matches {most.matches}"
        )


def _write_plan(folder: Path, rows: Sequence[PlanRow], output: Output) -> None:
    """Write plan.csv, and say what it would do."""
    path = folder / results.PLAN
    write_plan(path, rows)
    removed = [row for row in rows if row.action == "remove"]
    reviewed = [row for row in rows if row.action == "review"]
    untouched = {row.file for row in rows if row.protected}  # nothing is written beside them either
    merged = sum(bool(row.merged) and row.kept not in untouched for row in reviewed)
    freed = sum(row.facts.size for row in removed if row.facts is not None)
    belonging = sum(len(list_companions(row)) for row in removed)
    words = f"{len(removed)} can go ({freed / 1e6:.1f} MB)" if removed else "nothing can go"
    if belonging:
        words += f" and {belonging} that belong to them"
    words += f", {len(reviewed)} to look at"
    if merged:
        words += f" ({merged} only for notes such as captions, which --merge-metadata keeps)"
    if rows:
        words += f", in {count(len({row.group for row in rows}), 'group')} of {count(len(rows), 'file')}"
    output.say(words)
    if removed:
        place = "" if folder == Path("matches") else f" --output {shlex.quote(text_of(folder))}"
        carried_out = (
            f"{commands.name_command('match')} --apply move|hardlink|symlink|delete-to-trash{place}"
        )
        output.say(f"plan: {path}; nothing has been touched. Carry it out with: {carried_out}")
