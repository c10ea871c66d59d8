"""Searching a stored index: which references queries copy, or which pictures of the index are copies of each other."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np

from image_copies.data.errors import UserError

from .extractor import Extractor
from .index.filling import embed_queries
from .index.search import Neighbours, open_search
from .index.store import (
    Store,
    content_of,
    digests_of_files,
    read_content_files,
    stored_files,
    unreadable_files,
    vectors_by_digest,
)
from .index.verdicts import NOTHING_KEPT, Files, Verdicts
from .matches import Match, Matches, PairScorer, Rule
from .threshold import Doubles, Floats
from .views import CROPS, VIEWS, Looks, embed_views

QUERIES_PER_BLOCK = 1024
# expected false alarms per query up to which few lists of a large index hold what is nearer
MAX_NEAR_ALARMS = 0.002
MAX_KNOWN_FILES = 100_000  # contents whose files are read once in a search
NEAREST = 10  # references of each query that are verified, where nobody said
MOST_VERIFIED = 50_000  # pictures searched for up to which they are, and views searched with
T = TypeVar("T")

Query = tuple[Path, bytes]  # a file and its digest; empty for one that is not known
# squared distance, number of the content, and number of the query's view that is so near; −1 for the whole
Hit = tuple[float, int, int]


@dataclass
class Search:
    """One search: the store's vectors, the rule, and what a person decided."""

    store: Store
    extractor: Extractor
    rule: Rule
    # by pairs of digests: whether a person called them copies
    decided: Mapping[frozenset[bytes], bool] = field(default_factory=dict)
    # nearest references of each query to report whatever their score; 0 to follow the rule
    candidates: int = 0
    exact: bool = False  # compare every query with every reference, even in a large index
    views: bool = False  # also search with the views of queries; needs the tail of the rule
    looks: Looks | None = None  # keeps what was made of files
    verdicts: Verdicts = NOTHING_KEPT  # what is known of files
    opened: Neighbours | None = None  # what is searched, if it has been opened already

    @cached_property
    def index(self) -> Neighbours:
        """What is searched: the vectors of the store's current state."""
        return self.opened or open_search(self.store, self.exact)

    @cached_property
    def fitted(self) -> Rule:
        """The rule for the references, to which its tail is fitted."""
        return self.rule.against(self.index.sample)

    @cached_property
    def threshold(self) -> float | None:
        """The lowest score of a copy among the references; None without one."""
        return self.fitted.threshold(self.index.ntotal)

    @cached_property
    def _read(self) -> Callable[[int], tuple[bytes, Sequence[Path]]]:
        """Returns the digest and the files of a content, in the state of the store in which it is first asked for."""
        return lru_cache(MAX_KNOWN_FILES)(partial(read_content_files, self.store))

    @property
    def wanted(self) -> int:
        """Maximum number of references reported per query."""
        return self.candidates or self.rule.most

    def queries(self, paths: Sequence[Path]) -> Matches:
        """Find the references that these pictures copy.

        Raises:
            UserError: when the index is damaged or cannot be written, or there are too few training vectors to normalise against.
        """
        look = None if self.looks is None else self.looks.look
        digests = embed_queries(self.store, self.extractor, paths, look)
        found = self._search_files({path: digests[path] for path in paths if path in digests})
        pairs = [match for matches in found.values() for match in matches[: self.wanted]]
        known = digests_of_files(self.store, {match.reference for match in pairs})
        unreadable = [path for path in paths if path not in found]
        unreadable += [path for path in unreadable_files(self.store) if path not in unreadable]
        return self._collect_matches(pairs, len(paths), unreadable, known | digests)

    def near(
        self,
        vectors: Floats,
        digests: Sequence[bytes],
        views: Sequence[Floats | None] = (),
    ) -> list[list[Match]]:
        """Find the references that pictures copy, best first, given vectors [n, d] before query normalisation, not files.

        Digests are the SHA-256 of each picture's bytes; empty where they are not known. Views are the vectors [VIEWS, d] of each
        picture's views, with which it is searched for, too; () for none of any.
        """
        made = {row: self.extractor.normalize(own) for row, own in enumerate(views) if own is not None}
        found = self._search([(Path("<picture>"), digest) for digest in digests], vectors, made)
        return [matches[: self.wanted] for matches in found]

    def within(self) -> Matches:
        """Find the pictures of the index that are copies of each other; each pair once, with the higher of its two scores.

        Raises:
            UserError: when the index is damaged, or there are too few training vectors to normalise against.
        """
        files = stored_files(self.store)
        first: dict[bytes, Path] = {}
        for path, digest in files.items():
            first.setdefault(digest, path)
        found = self._search_files({path: digest for digest, path in first.items()})
        best: dict[tuple[Path, Path], Match] = {}
        for match in chain.from_iterable(found.values()):
            pair = min(match.files), max(match.files)
            if pair not in best or best[pair].score < match.score:
                best[pair] = match
        return self._collect_matches(best.values(), len(files), unreadable_files(self.store), files)

    def _search_files(self, digests: Mapping[Path, bytes]) -> dict[Path, list[Match]]:
        """Return the matches of each file that can be read, by what the index knows of its digest."""
        found: dict[Path, list[Match]] = {}
        for part in _split_into_blocks(list(digests)):
            vectors = vectors_by_digest(self.store, {digests[path] for path in part})
            asked = [(path, digests[path]) for path in part if vectors.get(digests[path]) is not None]
            matches = self._search(asked, np.array([vectors[digest] for _, digest in asked]))
            found |= {path: own for (path, _), own in zip(asked, matches, strict=True)}
        return found

    def _collect_matches(
        self, pairs: Iterable[Match], queries: int, unreadable: list[Path], digests: Mapping[Path, bytes]
    ) -> Matches:
        ordered = sorted(pairs, key=lambda match: (-match.score, *match.files))
        index = self.index
        return Matches(
            ordered, self.threshold, queries, index.ntotal, unreadable, exact=index.exact, digests=digests
        )

    def _search(
        self,
        queries: Sequence[Query],
        vectors: Floats,
        views: Mapping[int, Floats] | None = None,
    ) -> list[list[Match]]:
        """Return the matches of each query, with its vectors [n, d] before query normalisation.

        Views are those of queries by their rows, normalised [VIEWS, d]; None to make them where views are searched with.
        """
        if not queries:
            return []
        found = self._find_hits(queries, self.extractor.normalize(vectors), self._limit)
        if views is None:
            views = self._make_views(queries) if self.views else {}
        self._add_views(queries, views, found)
        return [self._make_matches(query, hits) for query, hits in zip(queries, found, strict=True)]

    @property
    def _limit(self) -> float:
        """The largest squared distance of a hit."""
        return np.inf if self.threshold is None or self.candidates else -self.threshold

    def _find_hits(self, queries: Sequence[Query], vectors: Floats, limit: float) -> list[list[Hit]]:
        """Return the nearest contents of each query that may be reported, by its vector [n, d], up to a squared distance."""
        # a query may find itself, and what a person said that it does not copy
        depth = self.wanted + 1 + max(self._rejected[digest] for _, digest in queries)
        references, tail = self.index.ntotal, self.fitted.tail
        near = tail is not None and tail.false_alarms(np.array([limit]), references)[0] <= MAX_NEAR_ALARMS
        nearest = self.index.nearest(vectors, depth, bool(near))
        found = list[list[Hit]]()
        for query, *row in zip(queries, nearest.values.tolist(), nearest.rows.tolist(), strict=True):
            hits = [(distance, content, -1) for distance, content in zip(*row, strict=True)]
            allowed = [hit for hit in hits if hit[0] <= limit and self._files(query, hit[1])]
            found.append(allowed[: self.wanted])
        return found

    def _make_views(self, queries: Sequence[Query]) -> dict[int, Floats]:
        """Return the normalised vectors [VIEWS, d] of the views of those queries that can be read, by their rows."""
        self.verdicts.know(queries)
        normalizer = self.extractor.normalizer
        given = [self.extractor.identity, normalizer and repr((normalizer.variant, normalizer.settings))]
        files = [(path,) for path, _ in queries]
        known = self.verdicts.ask_all(files, "views", given, self._embed_views)
        return {row: known[own] for row, own in enumerate(files) if own in known}

    def _embed_views(self, asked: Sequence[Files]) -> dict[Files, Floats]:
        known = () if self.looks is None else (self.looks.views,)
        made = embed_views(self.extractor, [path for (path,) in asked], *known)
        views = {files: vectors for files, vectors in zip(asked, made, strict=True) if vectors is not None}
        if not views:
            return {}
        normalized = self.extractor.normalize(np.concatenate(list(views.values())))
        return dict(zip(views, np.split(normalized, len(views)), strict=True))

    def _add_views(
        self, queries: Sequence[Query], views: Mapping[int, Floats], found: list[list[Hit]]
    ) -> None:
        """Add to the hits of queries, by their rows, the nearest contents of their normalised views [VIEWS, d].

        Where a hit is a copy for sure, only those of the first, a picture on a page: it may be a copy of another one.
        """
        tail = self.fitted.tail
        if not views or tail is None:
            return
        asked = [queries[row] for row in views for _ in range(VIEWS)]
        vectors = np.concatenate(list(views.values()))
        near = iter(self._find_hits(asked, vectors, tail.as_view(self._limit, VIEWS)))
        for row in views:
            hits = list(found[row])
            is_sure = self.threshold is not None and any(-hit[0] >= self.threshold for hit in hits)
            for view in range(VIEWS):
                own = next(near)
                if view == 0 or not is_sure:
                    hits += [(tail.as_whole(distance, VIEWS), content, view) for distance, content, _ in own]
            nearest: dict[int, Hit] = {}
            for hit in sorted(hits, key=lambda hit: hit[:2]):
                nearest.setdefault(hit[1], hit)
            found[row] = list(nearest.values())[: self.wanted]

    def _make_matches(self, query: Query, hits: Sequence[Hit]) -> list[Match]:
        """Return matches with the files of the hits; byte-identical files score 0, however far normalisation moved the query.

        After them come the files that the user decided are copies of the query.
        """
        path, digest = query
        tail = self.fitted.tail
        distances = np.array([distance for distance, _, _ in hits])
        expected = tail.false_alarms(distances, self.index.ntotal).tolist() if tail else [None] * len(hits)
        known = {content_of(self.store, digest): Match(path, path, 0.0, 0.0, same_bytes=True)}
        chosen = self._accepted.get(digest, [])
        score_pairs = read_scores(self.store, self.extractor, [digest, *chosen] if chosen else [])
        for other, score in zip(chosen, score_pairs([(digest, other) for other in chosen]), strict=True):
            known.setdefault(content_of(self.store, other), Match(path, path, float(score), 0.0))
        for (distance, content, view), alarms in zip(hits, expected, strict=True):
            crop = view if 0 <= view < len(CROPS) else None
            known.setdefault(content, Match(path, path, -distance, alarms, crop=crop))
        return [
            replace(match, reference=file)
            for content, match in known.items()
            for file in self._files(query, content)
        ]

    def _files(self, query: Query, content: int | None) -> list[Path]:
        """Return the files of a content that may be reported for a query."""
        if content is None:
            return []
        path, digest = query
        other, files = self._read(content)
        if self.decided.get(frozenset((digest, other))) is False:
            return []
        return [file for file in files if file != path]

    @cached_property
    def _rejected(self) -> Counter[bytes]:
        """How many contents a person called no copies of one, by its digest."""
        return Counter(chain.from_iterable(pair for pair, copy in self.decided.items() if not copy))

    @cached_property
    def _accepted(self) -> dict[bytes, list[bytes]]:
        """By digest, the digests that a person called its copies."""
        accepted: dict[bytes, list[bytes]] = defaultdict(list)
        for one, other in (sorted(pair) for pair, copy in self.decided.items() if copy):
            accepted[one].append(other)
            accepted[other].append(one)
        return accepted


def read_scores(store: Store, extractor: Extractor, digests: Iterable[bytes]) -> PairScorer:
    """Return what scores pairs of these pictures, given their digests, as a search does: −‖q − r‖², float64 [pairs].

    Of the two directions the higher score counts; −∞ stands for a pair with an unreadable or unknown picture.

    Raises:
        UserError: when the index is damaged.
    """
    known: dict[bytes, Doubles] = {}  # vectors [2, d], as a reference and as a query
    for part in _split_into_blocks(sorted(set(digests))):
        found = vectors_by_digest(store, part)
        readable = {digest: vector for digest, vector in found.items() if vector is not None}
        if readable:
            raw = np.stack(list(readable.values()))
            both = np.stack([raw, extractor.normalize(raw)], axis=1).astype(np.float64)
            known |= zip(readable, both, strict=True)

    def score(pair: tuple[bytes, bytes]) -> float:
        one, other = map(known.get, pair)
        if pair[0] == pair[1]:
            return 0.0
        if one is None or other is None:
            return -np.inf
        return -float(np.square(one[::-1] - other).sum(axis=1).min())

    return lambda pairs: np.array([score(pair) for pair in pairs], np.float64)


def choose_effort(
    rule: Rule, pictures: int, verified: int | None, views: bool | None
) -> tuple[int, bool, str]:
    """Return how many references of each query are verified, whether views are searched with, and what is left out, in words.

    What is None is chosen by the number of pictures that are searched for. Without a threshold the nearest references are listed,
    whatever they are, and nothing is looked at unless it is asked for.

    Raises:
        UserError: Views are asked for, and nothing says how rare their scores are.
    """
    if views and rule.tail is None:
        raise UserError(
            "--views needs a network whose false alarms are calibrated: add --unrelated DIR, or omit --views."
        )
    unsaid = verified is None and rule.threshold(1) is not None
    everything = unsaid and pictures <= MOST_VERIFIED
    if verified is None:
        verified = NEAREST if everything else 0
    if views is None:
        views = everything and rule.tail is not None
    left_out = ""
    if unsaid and not everything:
        left_out = (
            f"more than {MOST_VERIFIED:,} pictures: pairs were not verified by local features, and turned pictures, crops and "
            "pictures on a page may have been missed. --verify --views looks for them"
        )
    return verified, views, left_out


def _split_into_blocks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), QUERIES_PER_BLOCK):
        yield items[start : start + QUERIES_PER_BLOCK]
