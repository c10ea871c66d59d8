"""match.py's searches: find copies, group them, write the results."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from .. import results
from ..extractor import Extractor
from ..files.keeping import PATH, KeepSettings, find_pattern
from ..groups.planning import Grouped, drop_flat, make_groups, read_facts
from ..groups.series import number_series
from ..hash_lists import BITS, MAX_DISTANCE
from ..index.decisions import map_decisions
from ..index.filling import forget_missing
from ..index.search import open_search
from ..index.store import Store, forget_queries, open_store
from ..index.verdicts import NOTHING_KEPT, Verdicts
from ..matches import Matches, Rule
from ..output import Output, count
from ..pairs import PairJudge, share_cores
from ..search import Search, choose_effort, read_scores
from ..show.report import report_shares, write_results
from ..views import Looks, keep_looks
from .indexing import add_and_say
from .sources import Pictures


@dataclass(frozen=True)
class SearchSettings:
    """What a search is to do.

    Attributes:
        rule: When a pair counts as a copy.
        index: A kept index of references; None keeps one in the folder of the results.
        grouping: Which file of a group to keep.
        verified: Number of nearest references of each query to verify by local features (`pairs.py`); 0 for none,
            None for what the number of pictures says (`choose_effort`).
        views: Whether to search with the views of queries, too (`matching/views.py`); None as for `verified`.
        sets: Folders to report leakage between, from the one that may lose pictures to the one that may not.
        removes_references: Let the plan remove references, too, as if they were queries.
    """

    rule: Rule
    index: Path | None = None
    grouping: KeepSettings = field(default_factory=KeepSettings)
    verified: int | None = 0
    views: bool | None = False
    sets: Sequence[Path] = ()
    removes_references: bool = False


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        matches: The pairs.
        grouped: Groups and plan; None where nothing decides what is a copy.
        left_out: What was not looked at because of its time, in words.
        within: Whether copies were looked for among the queries themselves.
    """

    matches: Matches
    grouped: Grouped | None
    left_out: str
    within: bool


def search(
    extractor: Extractor, settings: SearchSettings, pictures: Pictures, folder: Path, output: Output
) -> None:
    """Find copies, and write matches.csv, groups.csv, plan.csv and the gallery into a folder.

    Raises:
        UserError: As `find_copies`; or another process is writing the results.
    """
    with results.hold_results_folder(folder):
        if settings.index is None:
            _say_unmatched(settings.grouping.preferred, pictures.paths, output)
        found = find_copies(extractor, settings, pictures, folder, output)
        notes = results.SearchNotes(
            index=settings.index and settings.index.absolute(),
            threshold=found.matches.threshold,
            read_only=pictures.read_only,
            sources=pictures.sources,
            references=not found.within,
        )
        results.write_notes(folder, notes)
        if found.within:
            report_shares(folder, found.matches, settings.rule, settings.sets, output)
        write_results(folder, found.matches, found.grouped, settings.rule, output, pictures.sources)


def find_copies(
    extractor: Extractor, settings: SearchSettings, pictures: Pictures, folder: Path, output: Output
) -> Found:
    """Find copies and group them; an index of the pictures is kept in a folder, unless another one is searched.

    Raises:
        UserError: The index is damaged or was made with another network, or the disk is full.
    """
    own = settings.index is None
    place = settings.index or folder / results.OWN_INDEX
    with (
        open_store(place, extractor.identity, extractor.dimensions, replace=own, new=own) as store,
        # products are small: further threads would only wait for each other
        threadpool_limits(1, user_api="blas"),
        keep_looks(extractor, folder) as looks,
    ):
        found = _find_and_group(store, looks, settings, pictures, output)
    if not pictures.hashes.names:
        return found
    return replace(found, matches=_add_listed(found.matches, pictures, settings.rule.most, output))


def _find_and_group(
    store: Store, looks: Looks, settings: SearchSettings, pictures: Pictures, output: Output
) -> Found:
    """Search the index and group what is found."""
    own = settings.index is None
    within = own and pictures.references is None
    queries = pictures.queries
    verified, views, left_out = choose_effort(
        settings.rule, len(queries), settings.verified, settings.views
    )
    if left_out:
        output.say(left_out)
        output.record("left_out", {"reason": left_out})
    # a kept index has none: files of its references may have changed since they were added
    verdicts = Verdicts(store.database, pictures.paths) if own else NOTHING_KEPT
    everything = views and verified > 0
    if own:
        looks.ahead = within and everything
        held = pictures.held  # none beside a list of hashes
        closed = add_and_say(store, looks.extractor, held, output, looks.look) if held else []
        forget_missing(store, set(held).difference(closed))  # nothing can be found out of the closed
    looks.ahead = everything
    decided = map_decisions(store)
    index = open_search(store)
    lookup = Search(
        store,
        index,
        looks.extractor,
        settings.rule,
        decided,
        candidates=verified,
        views=views and index.ntotal > 0,
        looks=looks,
        verdicts=verdicts,
    )
    found = lookup.within() if within else lookup.queries(queries)
    if own:
        forget_queries(store, found.digests.values())
        verdicts.forget_others()
    verdicts.know(found.digests.items())
    judge = PairJudge(verdicts=verdicts, find=looks.features)
    judge.verdicts.keep()  # of the views, which take longest
    if verified:
        found = _verify_pairs(found, lookup.fitted, judge)
    facts = read_facts(sorted({path for match in found.pairs for path in match.files}), verdicts)
    shown = drop_flat(found.pairs, {path for path, fact in facts.items() if fact.flat})
    found = _judge_pairs(replace(found, pairs=shown), judge)
    if not found.decided:
        return Found(found, None, left_out, within)
    grouping = replace(
        settings.grouping,
        folders=pictures.sources,
        is_protected=pictures.is_protected,
        is_reference=lambda path: not settings.removes_references and pictures.is_reference(path),
    )
    involved = {found.digests[path] for match in found.pairs for path in match.files}
    score_pairs = read_scores(store, looks.extractor, involved)
    grouped = make_groups(found, facts, score_pairs, judge, decided, grouping)
    judge.verdicts.keep()
    numbered = replace(found, pairs=number_series(found.pairs, facts, grouped.rows))
    return Found(numbered, grouped, left_out, within)


def _add_listed(found: Matches, pictures: Pictures, most: int, output: Output) -> Matches:
    """Return what was found, and after it what lists of hashes name; no group or plan knows of that."""
    hashes = pictures.hashes
    with share_cores() as pool:
        listed = [match for near in pool.map(hashes.find, pictures.queries) for match in near[:most]]
    skipped = f" ({hashes.skipped} other lines hold none that can be matched)" if hashes.skipped else ""
    output.say(
        f"PDQ hashes: {len(hashes.names)}{skipped}; matches within {MAX_DISTANCE} of {BITS} bits: {len(listed)}"
    )
    return replace(found, pairs=[*found.pairs, *listed])


def _say_unmatched(patterns: Sequence[str], paths: Sequence[Path], output: Output) -> None:
    """Say which patterns of paths to keep match nothing, as a mistyped one does."""
    for pattern in patterns:
        if all(find_pattern(path, [pattern]) for path in paths):
            output.say(f"--keep {PATH}{pattern} matches none of {count(len(paths), 'picture')}")


def _verify_pairs(found: Matches, rule: Rule, judge: PairJudge) -> Matches:
    """Verify the pairs that promise something by local features; confirmed pairs are copies, whatever their score."""
    changes = rule.choose_changes(found.pairs, found.references)
    verified = judge.verify_all(found.pairs, changes)
    judge.verdicts.keep()
    copies = rule.select_verified(verified, found.threshold)
    return replace(found, pairs=copies, verified=True)


def _judge_pairs(found: Matches, judge: PairJudge) -> Matches:
    """Say of every pair what it is, by its pixels; those that are not confirmed come last."""
    judgements = judge.judge_all(found.pairs, found.threshold)
    judge.verdicts.keep()
    judged = zip(found.pairs, judgements, strict=True)
    ordered = sorted(judged, key=lambda pair: not pair[1].confirmed)
    return replace(found, pairs=[replace(match, judgement=judgement) for match, judgement in ordered])
