"""match.py's searches: find copies, group them, write the results."""

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from image_copies.data.commands import name_command, name_review
from image_copies.data.errors import text_of
from image_copies.data.files import is_there
from image_copies.data.process import choose_workers
from image_copies.data.remote import is_remote
from image_copies.data.sources.archives import find_archive
from image_copies.data.sources.walking import known_path
from image_copies.data.targets import check_target
from image_copies.data.threads import map_in_threads
from image_copies.matching.commands.effort import choose_effort
from image_copies.matching.commands.indexing import say_added
from image_copies.matching.commands.sources import (
    Pictures,
    Sources,
    indexed_sources,
    make_protection_check,
    refuse_within,
)
from image_copies.matching.extractor import Extractor
from image_copies.matching.files.keeping import PATH, KeepSettings, find_pattern
from image_copies.matching.groups.planning import Grouped, drop_flat, make_groups, read_facts
from image_copies.matching.groups.series import number_series
from image_copies.matching.hash_lists import BITS, MAX_DISTANCE, HashLists, read_hash_lists
from image_copies.matching.index.filling import add_pictures, forget_missing
from image_copies.matching.index.store import Store, forget_queries, open_store, require_index
from image_copies.matching.index.verdicts import NOTHING_KEPT, Verdicts
from image_copies.matching.looks import Looks, keep_looks
from image_copies.matching.matches import Matches, Rule, match_values, rank_by_evidence
from image_copies.matching.output import Output, count
from image_copies.matching.pairs import PairJudge, verify_pairs
from image_copies.matching.results.folder import (
    LEAKAGE_GALLERY,
    OWN_INDEX,
    SearchNotes,
    hold_results_folder,
    write_notes,
)
from image_copies.matching.results.gallery import write_matches_page
from image_copies.matching.results.leakage import report_folders, report_leakage
from image_copies.matching.results.report import write_results, write_track
from image_copies.matching.search import PairScores, Search, make_exclusions


@dataclass(frozen=True)
class SearchSettings:
    """What a search is to do.

    Attributes:
        rule: When a pair counts as a copy.
        index: A kept index of references; None keeps one in the folder of the results.
        grouping: How groups are made and planned.
        verified: Number of nearest references of each query to verify by local features (`pairs.py`); 0 for none,
            None for what the number of pictures says (`effort.py`).
        views: Whether to search with the views of queries, too (`matching/views.py`); None as for `verified`.
        track: A CSV file in the form of the matching track to write as well; None for none.
        sets: Folders to report leakage between, from the one that may lose pictures to the one that may not.
        exact: Compare every query with every reference, even in a large index.
        removes_references: Let the plan remove references, too, as if they were queries.
        made_by: What made the results, such as versions, to be written with them.
    """

    rule: Rule
    index: Path | None = None
    grouping: KeepSettings = field(default_factory=KeepSettings)
    verified: int | None = 0
    views: bool | None = False
    track: Path | None = None
    sets: Sequence[Path] = ()
    exact: bool = False
    removes_references: bool = False
    made_by: Mapping[str, Any] = field(default_factory=dict)


def check_targets(sources: Sources, index: Path | None, track: Path | None) -> None:
    """Look at a kept index and at the file of the matching track, where they are named, before anything is embedded.

    Raises:
        UserError: There is no index, or the file is not one that this command writes.
    """
    if track is not None:
        # imported here: rarely asked for
        from image_copies.submissions.formats.matching_track import is_matching_track

        read = [*sources.queries, *sources.references, *sources.protected]
        check_target(track, "--matching-track", {".csv": is_matching_track}, read)
    if index is not None:
        require_index(index)


@dataclass(frozen=True)
class Searched:
    """What a search found.

    Attributes:
        matches: The pairs.
        grouped: The groups and the plan; None where nothing decides what is a copy.
        left_out: What was not looked at because it would take too long, in words; empty for nothing.
    """

    matches: Matches
    grouped: Grouped | None
    left_out: str


def search(
    extractor: Extractor, settings: SearchSettings, pictures: Pictures, folder: Path, output: Output
) -> Searched:
    """Find copies, and write matches.csv, groups.csv, plan.csv and the gallery into a folder.

    Raises:
        UserError: The index is damaged or was made with another network, another process is writing the results, or the disk is
            full.
    """
    refuse_within(folder, pictures.sources.read_only, "--output")
    within = _is_within(settings, pictures)
    lists = read_hash_lists(pictures.sources.hash_lists) if pictures.sources.hash_lists else None
    with (
        hold_results_folder(folder),
        _open_index(extractor, settings.index, folder) as store,
        # products are small: further threads would only wait for each other
        threadpool_limits(1, user_api="blas"),
        keep_looks(extractor, folder) as looks,
    ):
        # a kept index has none: files of its references may have changed since they were added
        verdicts = NOTHING_KEPT
        if settings.index is None:
            verdicts = Verdicts(store.database, pictures.paths)
            _say_unmatched(settings.grouping.preferred, pictures, output)
            _fill_own_index(store, looks, settings, pictures, output)
        found, grouped, left_out = _find_and_group(store, looks, verdicts, settings, pictures, output)
        if settings.index is not None:
            _say_gone(found, settings.index, output)
        found = (
            found
            if lists is None
            else _add_listed(found, lists, settings.rule.most, pictures.queries.paths, output)
        )
        named = _name_sources(pictures.sources)
        write_results(folder, found, grouped, settings.rule, output, named)
        known = None if settings.index is None else os.path.abspath(settings.index)  # noqa: PTH100 - its name, wherever it leads
        involved = hashlib.sha256(b"".join(sorted(found.digests.values()))).hexdigest()
        origin = {
            "descriptor": extractor.identity,
            "pictures": [len(found.digests), involved],
            **settings.made_by,
        }
        notes = SearchNotes(
            index=known,
            keep=settings.grouping.keep,
            threshold=found.threshold,
            made_from=origin,
            preferred=settings.grouping.preferred,
            read_only=[str(known_path(path)) for path in pictures.sources.read_only],
            sources=list(map(str, named)),
            references=not within,
        )
        write_notes(folder, notes)
        if found.decided and within:
            _report_shares(settings, pictures, found, folder, output)
        if found.pairs:
            output.say(
                f"decide pairs and choose what to keep: {name_review()} {shlex.quote(text_of(folder))}"
            )
    return Searched(found, grouped, left_out)


def _is_within(settings: SearchSettings, pictures: Pictures) -> bool:
    """Whether copies are looked for among the queries themselves."""
    return settings.index is None and pictures.references is None


def _open_index(extractor: Extractor, index: Path | None, folder: Path) -> AbstractContextManager[Store]:
    own = index is None
    return open_store(
        index or folder / OWN_INDEX, extractor.identity, extractor.dimensions, replace=own, new=own
    )


def _find_and_group(
    store: Store,
    looks: Looks,
    verdicts: Verdicts,
    settings: SearchSettings,
    pictures: Pictures,
    output: Output,
) -> tuple[Matches, Grouped | None, str]:
    """Search the index and group what is found; no groups where nothing decides what is a copy. Return what was left out, too."""
    within = _is_within(settings, pictures)
    exclusions = make_exclusions(store, _name_sources(pictures.sources) if pictures.sources.no_self else ())
    lookup = Search(
        store,
        looks.extractor,
        settings.rule,
        exclusions,
        exact=settings.exact,
        looks=looks,
        verdicts=verdicts,
    )
    references = lookup.index.ntotal
    queries = None if within else len(pictures.queries.paths)
    effort = choose_effort(settings.rule, queries, references, settings.verified, settings.views)
    lookup.candidates, lookup.views = effort.verified, effort.views and references > 0
    looks.ahead = lookup.views and effort.verified > 0
    found = lookup.within() if within else lookup.queries(pictures.queries.paths)
    if not within and len(pictures.queries.paths) == 1:
        _say_nearest(lookup, pictures.queries.paths[0], found, output)
    if settings.index is None:
        forget_queries(store, found.digests.values())
        verdicts.forget_others()
    verdicts.know(found.digests.items())
    verdicts.keep()
    if effort.left_out:
        output.say(effort.left_out)
        output.record("left_out", {"reason": effort.left_out})
    if effort.verified:
        found = _verify_pairs(found, lookup.fitted, looks, verdicts)
    if settings.track is not None:
        write_track(settings.track, found.candidates or found.pairs, output)
    paths = sorted({path for match in found.pairs for path in match.files})
    facts = read_facts(paths, verdicts)
    judge = PairJudge(verdicts=verdicts)
    shown = drop_flat(found.pairs, {path for path, fact in facts.items() if fact.flat})
    found = _judge_pairs(replace(found, pairs=shown), judge)
    verdicts.keep()
    if not found.decided:
        return found, None, effort.left_out
    sources = pictures.sources
    grouping = replace(
        settings.grouping,
        folders=indexed_sources([*sources.queries, *sources.references]),
        is_protected=make_protection_check([*sources.protected, *sources.read_only]),
        is_reference=_make_reference_check(settings, pictures),
    )
    grouped = make_groups(
        found, facts, PairScores(store, looks.extractor).scores, judge, exclusions, grouping
    )
    verdicts.keep()
    pairs = number_series(found.pairs, facts, grouped.rows)
    return replace(found, pairs=pairs), grouped, effort.left_out


def _add_listed(
    found: Matches, lists: HashLists, most: int, queries: Sequence[Path], output: Output
) -> Matches:
    """Return what was found, and after it what lists of hashes name; no group or plan knows of that."""
    listed = [
        match
        for matches in map_in_threads(lists.find, queries, choose_workers(None))
        for match in matches[:most]
    ]
    skipped = f" ({lists.skipped} other lines hold none that can be matched)" if lists.skipped else ""
    output.say(
        f"PDQ hashes: {len(lists.names)}{skipped}; matches within {MAX_DISTANCE} of {BITS} bits: {len(listed)}"
    )
    return replace(found, pairs=[*found.pairs, *listed], hashes=len(lists.names))


def _say_nearest(lookup: Search, query: Path, found: Matches, output: Output) -> None:
    """Say which reference is nearest to the only query, also where it is no copy."""
    nearest = lookup.nearest(query, found.digests[query]) if query in found.digests else None
    if nearest is not None:
        needed = "" if lookup.threshold is None else f" (at least {lookup.threshold:.3f} for a copy)"
        output.say(f"nearest: {text_of(nearest.reference)}, score {nearest.score:.3f}{needed}")
        output.record("nearest", match_values(nearest))


def _say_gone(found: Matches, index: Path, output: Output) -> None:
    """Say how many of the references that were found are not there any more: no copy can be confirmed by them, or removed."""
    references = sorted({match.reference for match in found.pairs})
    gone = [
        path
        for path in references
        if not is_remote(path) and not is_there(path) and find_archive(path) is None
    ]
    if gone:
        output.say(
            f"not there any more: {count(len(gone), 'reference')} found in {index}, such as {text_of(gone[0])}. Take them out "
            f"with: {name_command('match')} remove DIR --index {shlex.quote(text_of(index))}"
        )


def _say_unmatched(patterns: Sequence[str], pictures: Pictures, output: Output) -> None:
    """Say which patterns of paths to keep match nothing, as a mistyped one does."""
    for pattern in patterns:
        if all(find_pattern(path, [pattern]) for path in pictures.paths):
            output.say(f"--keep {PATH}{pattern} matches none of {count(len(pictures.paths), 'picture')}")


def _make_reference_check(settings: SearchSettings, pictures: Pictures) -> Callable[[Path], bool]:
    """Return a function that tells whether a file is a reference, which no plan removes unless it is asked to."""
    if _is_within(settings, pictures) or settings.removes_references:
        return lambda path: False
    references, queries = (
        set(pictures.references.paths if pictures.references else ()),
        set(pictures.queries.paths),
    )
    return lambda path: path in references or path not in queries


def _fill_own_index(
    store: Store, looks: Looks, settings: SearchSettings, pictures: Pictures, output: Output
) -> None:
    """Let the index in the results' folder hold the pictures to be searched, and no others."""
    searched, sources = pictures.references or pictures.queries, pictures.sources
    held = list(dict.fromkeys([*searched.paths, *pictures.protected.paths]))
    effort = choose_effort(settings.rule, None, len(held), settings.verified, settings.views)
    looks.ahead = _is_within(settings, pictures) and effort.views and effort.verified > 0
    added = add_pictures(store, looks.extractor, held, looks.look)
    if held or not sources.hash_lists:
        say_added(", ".join(map(str, sources.references or sources.queries)), added, output)
    forget_missing(store, set(held).difference(added.closed))  # as nothing can be found out of them


def _verify_pairs(found: Matches, rule: Rule, looks: Looks, verdicts: Verdicts) -> Matches:
    """Verify the pairs that promise something by local features; confirmed pairs are copies, whatever their score."""
    pairs = found.pairs
    changes = rule.choose_changes(pairs, found.references)
    looked_at = rank_by_evidence(pairs, verify_pairs(pairs, changes, looks.features, verdicts))
    verdicts.keep()
    copies = rule.select_verified(looked_at, found.threshold)
    return replace(found, pairs=copies, verified=True, candidates=looked_at)


def _judge_pairs(found: Matches, judge: PairJudge) -> Matches:
    """Say of every pair what it is, by its pixels."""
    pairs = found.pairs
    judgements = judge.judge_all(pairs, found.threshold)
    judged = [replace(match, judgement=judgement) for match, judgement in zip(pairs, judgements, strict=True)]
    # those come last
    ordered = sorted(judged, key=lambda match: match.judgement is not None and not match.judgement.confirmed)
    return replace(found, pairs=ordered)


def _report_shares(
    settings: SearchSettings, pictures: Pictures, found: Matches, folder: Path, output: Output
) -> None:
    """Report the folders that share pictures, and what sets share if there are any, by the pairs that are called copies."""
    pairs = [match for match in found.pairs if match.is_copy]
    report_folders(folder, pairs, found.digests, output)
    if settings.sets:
        across = report_leakage(
            folder, pairs, found.digests, [known_path(path) for path in settings.sets], output
        )
        across_sets = replace(found, pairs=across)
        named = _name_sources(pictures.sources)
        page = write_matches_page(folder / LEAKAGE_GALLERY, across_sets, settings.rule, sources=named)
        output.say(f"the worst pairs across sets: {page}")


def _name_sources(sources: Sources) -> list[Path]:
    """Return the folders and files that are searched, as the index knows them."""
    return indexed_sources([*sources.queries, *sources.references, *sources.protected])
