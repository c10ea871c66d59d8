"""match.py's searches: find copies, group them, write the results."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from image_copies.data.commands import name_review
from image_copies.data.errors import text_of
from image_copies.data.process import choose_workers
from image_copies.data.sources.walking import known_path
from image_copies.data.threads import map_in_threads

from ..extractor import Extractor
from ..files.keeping import PATH, KeepSettings, find_pattern
from ..groups.planning import Grouped, drop_flat, make_groups, read_facts
from ..groups.series import number_series
from ..hash_lists import BITS, MAX_DISTANCE, HashLists, read_hash_lists
from ..index.decisions import map_decisions
from ..index.filling import add_pictures, forget_missing
from ..index.store import Store, forget_queries, open_store
from ..index.verdicts import NOTHING_KEPT, Verdicts
from ..matches import Matches, Rule, rank_by_evidence
from ..output import Output, count
from ..pairs import PairJudge
from ..results.folder import LEAKAGE_GALLERY, OWN_INDEX, SearchNotes, hold_results_folder, write_notes
from ..results.gallery import write_matches_page
from ..results.leakage import report_folders, report_leakage
from ..results.report import write_results
from ..search import Search, choose_effort, read_scores
from ..views import Looks, keep_looks
from .indexing import say_added
from .sources import Pictures, Sources, indexed_sources, make_protection_check, refuse_within


@dataclass(frozen=True)
class SearchSettings:
    """What a search is to do.

    Attributes:
        rule: When a pair counts as a copy.
        index: A kept index of references; None keeps one in the folder of the results.
        grouping: How groups are made and planned.
        verified: Number of nearest references of each query to verify by local features (`pairs.py`); 0 for none,
            None for what the number of pictures says (`choose_effort`).
        views: Whether to search with the views of queries, too (`matching/views.py`); None as for `verified`.
        sets: Folders to report leakage between, from the one that may lose pictures to the one that may not.
        exact: Compare every query with every reference, even in a large index.
        removes_references: Let the plan remove references, too, as if they were queries.
    """

    rule: Rule
    index: Path | None = None
    grouping: KeepSettings = field(default_factory=KeepSettings)
    verified: int | None = 0
    views: bool | None = False
    sets: Sequence[Path] = ()
    exact: bool = False
    removes_references: bool = False


# pairs; groups and plan, None where nothing decides what is a copy; what was left out because of its time, in words
Searched = tuple[Matches, Grouped | None, str]


def search(
    extractor: Extractor, settings: SearchSettings, pictures: Pictures, folder: Path, output: Output
) -> Searched:
    """Find copies, and write matches.csv, groups.csv, plan.csv and the gallery into a folder.

    Raises:
        UserError: The index is damaged or was made with another network, another process is writing the results, or the disk is
            full.
    """
    read_only = indexed_sources(pictures.sources.read_only)
    refuse_within(folder, read_only, "--output")
    lists = read_hash_lists(pictures.sources.hash_lists) if pictures.sources.hash_lists else None
    own = settings.index is None
    place = settings.index or folder / OWN_INDEX
    named = pictures.sources.places
    with (
        hold_results_folder(folder),
        open_store(place, extractor.identity, extractor.dimensions, replace=own, new=own) as store,
        # products are small: further threads would only wait for each other
        threadpool_limits(1, user_api="blas"),
        keep_looks(extractor, folder) as looks,
    ):
        if own:
            _say_unmatched(settings.grouping.preferred, pictures, output)
        found, grouped, left_out = _find_and_group(store, looks, settings, pictures, output)
        if lists is not None:
            found = _add_listed(found, lists, settings.rule.most, pictures.queries.paths, output)
        write_results(folder, found, grouped, settings.rule, output, named)
        notes = SearchNotes(
            index=None if own else place.absolute(),
            threshold=found.threshold,
            read_only=read_only,
            sources=named,
            references=not _is_within(settings, pictures),
        )
        write_notes(folder, notes)
        if found.decided and _is_within(settings, pictures):
            _report_shares(settings, pictures, found, folder, output)
        if found.pairs:
            output.say(
                f"decide pairs and choose what to keep: {name_review()} {shlex.quote(text_of(folder))}"
            )
    return found, grouped, left_out


def _is_within(settings: SearchSettings, pictures: Pictures) -> bool:
    """Whether copies are looked for among the queries themselves."""
    return settings.index is None and pictures.references is None


def _find_and_group(
    store: Store, looks: Looks, settings: SearchSettings, pictures: Pictures, output: Output
) -> Searched:
    """Search the index and group what is found."""
    own = settings.index is None
    within = _is_within(settings, pictures)
    queries = pictures.queries.paths
    held = (pictures.references or pictures.queries).paths
    verified, views, left_out = choose_effort(
        settings.rule, len(held if within else queries), settings.verified, settings.views
    )
    if left_out:
        output.say(left_out)
        output.record("left_out", {"reason": left_out})
    # a kept index has none: files of its references may have changed since they were added
    verdicts = Verdicts(store.database, pictures.paths) if own else NOTHING_KEPT
    everything = views and verified > 0
    if own:
        looks.ahead = within and everything
        _fill_own_index(store, looks, held, pictures.sources, output)
    looks.ahead = everything
    decided = map_decisions(store)
    lookup = Search(
        store,
        looks.extractor,
        settings.rule,
        decided,
        candidates=verified,
        exact=settings.exact,
        looks=looks,
        verdicts=verdicts,
    )
    lookup.views = views and lookup.index.ntotal > 0
    found = lookup.within() if within else lookup.queries(queries)
    if own:
        forget_queries(store, found.digests.values())
        verdicts.forget_others()
    verdicts.know(found.digests.items())
    verdicts.keep()
    judge = PairJudge(verdicts=verdicts, find=looks.features)
    if verified:
        found = _verify_pairs(found, lookup.fitted, judge)
    facts = read_facts(sorted({path for match in found.pairs for path in match.files}), verdicts)
    shown = drop_flat(found.pairs, {path for path, fact in facts.items() if fact.flat})
    found = _judge_pairs(replace(found, pairs=shown), judge)
    verdicts.keep()
    if not found.decided:
        return found, None, left_out
    sources = pictures.sources
    grouping = replace(
        settings.grouping,
        folders=sources.places,
        is_protected=make_protection_check(sources.read_only),
        is_reference=_make_reference_check(settings, pictures),
    )
    involved = {found.digests[path] for match in found.pairs for path in match.files}
    score_pairs = read_scores(store, looks.extractor, involved)
    grouped = make_groups(found, facts, score_pairs, judge, decided, grouping)
    verdicts.keep()
    return replace(found, pairs=number_series(found.pairs, facts, grouped.rows)), grouped, left_out


def _add_listed(
    found: Matches, lists: HashLists, most: int, queries: Sequence[Path], output: Output
) -> Matches:
    """Return what was found, and after it what lists of hashes name; no group or plan knows of that."""
    near = map_in_threads(lists.find, queries, choose_workers(None))
    listed = [match for matches in near for match in matches[:most]]
    skipped = f" ({lists.skipped} other lines hold none that can be matched)" if lists.skipped else ""
    output.say(
        f"PDQ hashes: {len(lists.names)}{skipped}; matches within {MAX_DISTANCE} of {BITS} bits: {len(listed)}"
    )
    return replace(found, pairs=[*found.pairs, *listed])


def _say_unmatched(patterns: Sequence[str], pictures: Pictures, output: Output) -> None:
    """Say which patterns of paths to keep match nothing, as a mistyped one does."""
    for pattern in patterns:
        if all(find_pattern(path, [pattern]) for path in pictures.paths):
            output.say(f"--keep {PATH}{pattern} matches none of {count(len(pictures.paths), 'picture')}")


def _make_reference_check(settings: SearchSettings, pictures: Pictures) -> Callable[[Path], bool]:
    """Return a function that tells whether a file is a reference, which no plan removes unless it is asked to."""
    if _is_within(settings, pictures) or settings.removes_references:
        return lambda path: False
    references = set(pictures.references.paths if pictures.references else ())
    queries = set(pictures.queries.paths)
    return lambda path: path in references or path not in queries


def _fill_own_index(
    store: Store, looks: Looks, held: Sequence[Path], sources: Sources, output: Output
) -> None:
    """Let the index in the results' folder hold the pictures to be searched, and no others."""
    embedded, closed = add_pictures(store, looks.extractor, held, looks.look)
    if held or not sources.hash_lists:
        where = ", ".join(map(str, sources.references or sources.queries))
        say_added(where, len(held), embedded, closed, output)
    forget_missing(store, set(held).difference(closed))  # as nothing can be found out of them


def _verify_pairs(found: Matches, rule: Rule, judge: PairJudge) -> Matches:
    """Verify the pairs that promise something by local features; confirmed pairs are copies, whatever their score."""
    changes = rule.choose_changes(found.pairs, found.references)
    evidence = judge.verify_all(found.pairs, changes)
    judge.verdicts.keep()
    copies = rule.select_verified(rank_by_evidence(found.pairs, evidence), found.threshold)
    return replace(found, pairs=copies, verified=True)


def _judge_pairs(found: Matches, judge: PairJudge) -> Matches:
    """Say of every pair what it is, by its pixels; those that are not confirmed come last."""
    judgements = judge.judge_all(found.pairs, found.threshold)
    judged = zip(found.pairs, judgements, strict=True)
    ordered = sorted(judged, key=lambda pair: not pair[1].confirmed)
    return replace(found, pairs=[replace(match, judgement=judgement) for match, judgement in ordered])


def _report_shares(
    settings: SearchSettings, pictures: Pictures, found: Matches, folder: Path, output: Output
) -> None:
    """Report the folders that share pictures, and what sets share if there are any, by the pairs that are called copies."""
    pairs = [match for match in found.pairs if match.is_copy]
    report_folders(folder, pairs, found.digests, output)
    if settings.sets:
        sets = [known_path(path) for path in settings.sets]
        across = replace(found, pairs=report_leakage(folder, pairs, found.digests, sets, output))
        named = pictures.sources.places
        page = write_matches_page(folder / LEAKAGE_GALLERY, across, settings.rule, sources=named)
        output.say(f"the worst pairs across sets: {page}")
