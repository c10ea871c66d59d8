"""match.py's searches: change the index, find copies, group them, write the results."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from data.discovery import Discovered, discover, format_skipped_counts
from data.errors import UserError
from data.names import line_of, text_of
from data.unreadable import list_unreadable
from pipeline.tools.match_groups import Grouped, drop_flat, make_groups, read_facts, write_grouped
from pipeline.tools.match_index import Added, add_pictures, forget_missing
from pipeline.tools.match_leakage import report_folders, report_leakage
from pipeline.tools.match_model import Model
from pipeline.tools.match_output import Output
from pipeline.tools.match_paths import indexed_path, make_protection_check
from pipeline.tools.match_results import (
    CUTS,
    GROUPS,
    HUBS,
    MATCHES,
    MOVED,
    OWN_INDEX,
    PLAN,
    SearchNotes,
    hold_results_folder,
    write_notes,
)
from pipeline.tools.match_search import Exclusions, Found, PairScores, Search
from submissions.copies.groups import MAX_GROUP_SIZE
from submissions.copies.keeping import KeepRule
from submissions.formats.matching_track import write_pairs
from submissions.index.decisions import read_decisions
from submissions.index.matches import Match, Matches, Rule, describe_count, write_matches_csv
from submissions.index.store import DATABASE, Store, forget_queries, open_store, remove_files, unreadable_files
from submissions.report.matches_page import write_matches_page
from submissions.report.output_folder import check_output_folder

GALLERY, LEAKAGE_GALLERY = "gallery", "leakage"
UNREADABLE = "unreadable.txt"  # in the folder of the results, or of the index


@dataclass(frozen=True)
class Sources:
    """Where pictures come from: folders, archives, files or `@list.txt`.

    Attributes:
        queries: pictures that may be copies; without references, copies are looked for among them.
        references: pictures that may have been copied.
        protected: pictures that are searched too and never touched.
        no_self: report no pairs within one source.
    """

    queries: Sequence[Path]
    references: Sequence[Path] = ()
    protected: Sequence[Path] = ()
    no_self: bool = False


@dataclass(frozen=True)
class Grouping:
    """How groups are made and planned.

    Attributes:
        keep: which file of a group to keep.
        bound: Maximum number of contents in a group.
    """

    keep: KeepRule = "largest"
    bound: int = MAX_GROUP_SIZE


@dataclass(frozen=True)
class Pictures:
    """What the sources hold.

    Attributes:
        queries: pictures that may be copies.
        references: pictures that may have been copied; None where copies are looked for among the queries.
        protected: pictures that are never touched.
    """

    queries: Discovered
    references: Discovered | None
    protected: Discovered


def find_pictures(sources: Sources, folder: Path, output: Output) -> Pictures:
    """Find the pictures of all sources, but for those in the results' own folder.

    Raises:
        UserError: a source is missing or holds no picture, or the results would overwrite a folder that is not theirs.
    """
    for page in (GALLERY, LEAKAGE_GALLERY):
        check_output_folder(folder / page, "--output")
    queries = _discover_pictures(sources.queries, folder, output) if sources.queries else Discovered([])
    references = _discover_pictures(sources.references, folder, output) if sources.references else None
    protected = _discover_pictures(sources.protected, folder, output) if sources.protected else Discovered([])
    return Pictures(queries, references, protected)


def check_index(index: Path | None, adds: bool, output: Output) -> None:
    """Look at a kept index before anything is embedded.

    Raises:
        UserError: there is none, and nothing is added that would make it.
    """
    if index is None:
        return
    database = index / DATABASE
    if adds and database.is_file() and not database.stat().st_size:
        output.say(f"{database} is empty, as a killed or damaged one is: a new index is made")
    if not adds and not database.exists():
        raise UserError(f"{index} holds no index. Make it with: python pipeline/match.py --index {index} --add DIR")


def change_index(model: Model, index: Path, added: Discovered | None, removed: Sequence[Path], output: Output) -> None:
    """Add pictures to a kept index and take files, or all below a folder, out of it."""
    with open_store(index, model.extractor.identity, model.extractor.dimensions, new=added is not None) as store:
        _change_store(store, model, added, removed, output)


def search(
    model: Model,
    rule: Rule,
    sources: Sources,
    pictures: Pictures,
    index: Path | None,
    grouping: Grouping,
    folder: Path,
    output: Output,
    added: Discovered | None = None,
    removed: Sequence[Path] = (),
    verified: int = 0,
    track: Path | None = None,
    sets: Sequence[Path] = (),
    exact: bool = False,
) -> int:
    """Find copies and write matches.csv, groups.csv, plan.csv and the gallery.

    Args:
        model: opened.
        rule: when a pair counts as a copy.
        sources: where the pictures are.
        pictures: what the sources hold.
        index: a kept index of references; None keeps one in `folder`.
        grouping: how groups are made and planned.
        folder: where the results go.
        output: where messages go.
        added: pictures to add to the kept index first.
        removed: files or folders to take out of it first.
        verified: look again at so many of each query's nearest references (`verification/`); 0 for none.
        track: a CSV file in the form of the matching track to write as well.
        sets: folders to report leakage between, from the one that may lose pictures to the one that may not.
        exact: compare with every reference, in a large index too.

    Returns:
        The number of matches.
    """
    queries, references = pictures.queries, pictures.references
    with hold_results_folder(folder):
        place = index or folder / OWN_INDEX
        extractor = model.extractor
        with open_store(
            place, extractor.identity, extractor.dimensions, replace=index is None, new=index is None or added is not None
        ) as store:
            _change_store(store, model, added, removed, output)
            exclusions = _make_exclusions(store, sources)
            lookup = Search(store, extractor, rule, exclusions, verified, exact)
            if index is None:
                held = list(dict.fromkeys([*(references or queries).paths, *pictures.protected.paths]))
                _say_added(
                    ", ".join(map(str, sources.references or sources.queries)), add_pictures(store, extractor, held), output
                )
                forget_missing(store, held)
            found = lookup.within() if index is None and references is None else lookup.queries(queries.paths)
            if index is None:
                forget_queries(store, found.digests.values())
            if verified:
                found = _verify_pairs(found, rule)
            if track is not None:
                write_track(track, found.candidates or found.matches.pairs, output)
            facts = read_facts(sorted({path for match in found.matches.pairs for path in (match.query, match.reference)}))
            found = replace(found, matches=replace(found.matches, pairs=drop_flat(found.matches.pairs, facts)))
            grouped = None
            if found.matches.decided:
                grouped = make_groups(
                    found,
                    facts,
                    PairScores(store, extractor),
                    found.matches.threshold if found.matches.threshold is not None else 0.0,
                    exclusions,
                    grouping.keep,
                    [*map(indexed_path, sources.queries), *map(indexed_path, sources.references)],
                    make_protection_check(sources.protected),
                    grouping.bound,
                )
        _write_results(folder, found, grouped, rule, output)
        known = None if index is None else os.path.abspath(index)  # noqa: PTH100 - its name, wherever it leads
        write_notes(folder, SearchNotes(known, grouping.keep, found.matches.threshold))
        if found.matches.decided and references is None and index is None:
            pairs = found.matches.pairs
            report_folders(folder, pairs, found.digests, output)
            if sets:
                across = report_leakage(folder, pairs, found.digests, [indexed_path(path) for path in sets], output)
                page = write_matches_page(folder / LEAKAGE_GALLERY, replace(found.matches, pairs=across), rule)
                output.say(f"the worst pairs across sets: {page}")
    if found.matches.pairs:
        output.say(f"decide pairs and choose what to keep: python pipeline/explore.py --matches {shlex.quote(text_of(folder))}")
    return len(found.matches.pairs)


def write_track(path: Path, pairs: Sequence[Match], output: Output) -> None:
    """Write the matching track's CSV; confirmed pairs come before all others, by how many features agree."""
    rows = [
        (match.query.stem, match.reference.stem, float(match.evidence.inliers) if match.evidence else match.score)
        for match in pairs
    ]
    output.say(f"matching track: {path}, {write_pairs(path, rows)} pairs")


def _verify_pairs(found: Found, rule: Rule) -> Found:
    """Verify the pairs by local features; confirmed pairs are copies, whatever their score."""
    # imported here: nothing else needs OpenCV's features
    from pipeline.tools.match_verify import select_copies, verify_matches

    looked_at = verify_matches(found.matches.pairs)
    pairs = select_copies(looked_at, found.matches.threshold, rule.most)
    return Found(replace(found.matches, pairs=pairs, verified=True), found.digests, looked_at)


def _discover_pictures(sources: Sequence[Path], results: Path, output: Output) -> Discovered:
    own = [results / GALLERY, results / LEAKAGE_GALLERY, results / OWN_INDEX, results / MOVED]
    found = discover(sources, excluded=own)
    if found.skipped:
        output.say(f"passed over: {format_skipped_counts(found.skipped)}")
    output.record("skipped", {reason: len(paths) for reason, paths in found.skipped.items()})
    return found


def _make_exclusions(store: Store, sources: Sources) -> Exclusions:
    known = read_decisions(store)
    accepted: dict[bytes, frozenset[bytes]] = {}
    for decision in known:
        if decision.copy:
            for one, other in ((decision.first, decision.second), (decision.second, decision.first)):
                accepted[one] = accepted.get(one, frozenset()) | {other}
    every = [*sources.queries, *sources.references, *sources.protected]
    return Exclusions(
        frozenset(decision.pair for decision in known if not decision.copy),
        accepted,
        list(map(indexed_path, every)) if sources.no_self else (),
    )


def _change_store(store: Store, model: Model, added: Discovered | None, removed: Sequence[Path], output: Output) -> None:
    if added is not None:
        done = add_pictures(store, model.extractor, added.paths)
        _say_added(str(store.folder), done, output)
        _report_unreadable([*done.closed, *unreadable_files(store)], store.folder / UNREADABLE, output)
    if removed:
        files = remove_files(store, map(indexed_path, removed))
        output.say(f"removed {sum(files.values())} files from {store.folder}")
        for path in [path for path, count in files.items() if not count]:
            output.say(f"{path} is not in it, nor anything below")


def _say_added(where: str, added: Added, output: Output) -> None:
    closed = f"{len(added.closed)} cannot be opened, the first is {added.closed[0]}, " if added.closed else ""
    output.say(f"{where}: {added.images} images, {added.embedded} of them embedded, {closed}the others were known")


def _report_unreadable(images: Sequence[Path], listed: Path, output: Output) -> None:
    list_unreadable(listed, images)
    if images:
        count, first = len(images), line_of(images[0])
        output.say(f"images that cannot be read and match nothing: {count}, the first is {first}; all, with reasons: {listed}")


def _write_results(folder: Path, found: Found, grouped: Grouped | None, rule: Rule, output: Output) -> None:
    matches = found.matches
    write_matches_csv(folder / MATCHES, matches)
    page = write_matches_page(
        folder / GALLERY, matches, rule, grouped.groups if grouped else None, grouped.rows if grouped else []
    )
    output.say(
        f"{matches.queries} queries, {matches.references} different references; {describe_count(matches)} "
        + _describe_decision(matches, rule)
    )
    output.say(
        "exact search: every query was compared with every reference"
        if matches.exact
        else "approximate search: the scores are exact, but a copy may have been missed; --exact compares all pairs"
    )
    output.record("search", {"exact": matches.exact, "queries": matches.queries, "references": matches.references})
    _report_unreadable(matches.unreadable, folder / UNREADABLE, output)
    for match in matches.pairs:
        values = {"query": match.query, "reference": match.reference, "score": match.score}
        output.record("match", values | {"expected_false_alarms": match.false_alarms} | _evidence_values(match))
    if grouped is not None:
        write_grouped(folder, grouped, output)
    else:
        for name in (GROUPS, CUTS, HUBS, PLAN):
            (folder / name).unlink(missing_ok=True)  # of an earlier search: --apply must not carry that out
    output.say(f"matches: {folder / MATCHES}\ngallery: {page}")


def _evidence_values(match: Match) -> dict[str, object]:
    found = match.evidence
    if found is None:
        return {}
    return {
        "inliers": found.inliers,
        "change": found.change,
        "query_region": found.query_region,
        "reference_region": found.reference_region,
    }


def _describe_decision(matches: Matches, rule: Rule) -> str:
    if matches.verified:
        count = sum(match.evidence is not None for match in matches.pairs)
        also = "" if matches.threshold is None else f", the others score at least {matches.threshold:.3f}"
        return f"({count} confirmed by their features{also})"
    if matches.threshold is None:
        return "listed; nothing calibrates a threshold here, so there are no groups: add --unrelated DIR or --threshold"
    if rule.score is not None:
        return f"of at least {matches.threshold:.3f}"
    return f"of at least {matches.threshold:.3f} ({rule.rate:g} false alarms per query to be expected)"
