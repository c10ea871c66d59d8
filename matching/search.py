"""Searching a stored index: which references queries copy, or which pictures of the index are copies of each other."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import chain, product
from pathlib import Path

import numpy as np

from image_copies.data.errors import UserError

from .extractor import Extractor
from .index import store as index_store
from .index.filling import embed_queries
from .index.search import Neighbours
from .index.verdicts import NOTHING_KEPT, Verdicts
from .matches import MOST_REFERENCES, Match, Matches, PairScorer, Rule
from .threshold import Doubles, Floats
from .views import CROPS, VIEWS, Looks, embed_views

QUERIES_PER_BLOCK = 1024
MAX_KNOWN_FILES = 100_000  # contents whose files are read once in a search
MOST_VERIFIED = 50_000  # pictures searched for up to which they are, and views searched with

Query = tuple[Path, bytes]  # a file and its digest; empty for one that is not known
# squared distance, row of the content, and number of the query's view that is so near; −1 for the whole
Hit = tuple[float, int, int]


@dataclass
class Search:
    """One search: the store, its vectors, the rule, and what a person decided."""

    store: index_store.Store
    index: Neighbours
    extractor: Extractor
    rule: Rule
    # by pairs of digests: whether a person called them copies
    decided: Mapping[frozenset[bytes], bool] = field(default_factory=dict)
    # nearest references of each query to report whatever their score; 0 to follow the rule
    candidates: int = 0
    views: bool = False  # also search with the views of queries; needs the tail of the rule
    looks: Looks | None = None  # keeps what was made of files
    verdicts: Verdicts = NOTHING_KEPT  # what is known of files

    @cached_property
    def fitted(self) -> Rule:
        """The rule for the references, to which its tail is fitted."""
        return self.rule.against(self.index.sample)

    @cached_property
    def threshold(self) -> float | None:
        """The lowest score of a copy among the references; None without one."""
        return self.fitted.threshold(self.index.ntotal)

    @cached_property
    def _read(self) -> Callable[[bytes], Sequence[Path]]:
        """Returns the files of a content, in the state of the store in which it is first asked for."""
        return lru_cache(MAX_KNOWN_FILES)(partial(index_store.files_of, self.store))

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
        known = index_store.digests_of_files(self.store, {match.reference for match in pairs})
        unreadable = [path for path in paths if path not in found]
        unreadable += [path for path in index_store.unreadable_files(self.store) if path not in unreadable]
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
        files = index_store.stored_files(self.store)
        first: dict[bytes, Path] = {}
        for path, digest in files.items():
            first.setdefault(digest, path)
        found = self._search_files({path: digest for digest, path in first.items()})
        best: dict[frozenset[Path], Match] = {}
        for match in sorted(chain.from_iterable(found.values()), key=lambda match: -match.score):
            best.setdefault(frozenset(match.files), match)
        return self._collect_matches(
            best.values(), len(files), index_store.unreadable_files(self.store), files
        )

    def _search_files(self, digests: Mapping[Path, bytes]) -> dict[Path, list[Match]]:
        """Return the matches of each file that can be read, by what the index knows of its digest."""
        found: dict[Path, list[Match]] = {}
        paths = list(digests)
        for start in range(0, len(paths), QUERIES_PER_BLOCK):
            part = paths[start : start + QUERIES_PER_BLOCK]
            vectors = index_store.vectors_by_digest(self.store, {digests[path] for path in part})
            asked = [(path, digests[path]) for path in part if vectors.get(digests[path]) is not None]
            if asked:
                views = self._make_views(asked) if self.views else {}
                matches = self._search(asked, np.array([vectors[digest] for _, digest in asked]), views)
                found |= {path: own for (path, _), own in zip(asked, matches, strict=True)}
        return found

    def _collect_matches(
        self, pairs: Iterable[Match], queries: int, unreadable: list[Path], digests: Mapping[Path, bytes]
    ) -> Matches:
        ordered = sorted(pairs, key=lambda match: (-match.score, *match.files))
        return Matches(ordered, self.threshold, queries, self.index.ntotal, unreadable, digests=digests)

    def _search(
        self, queries: Sequence[Query], vectors: Floats, views: Mapping[int, Floats]
    ) -> list[list[Match]]:
        """Return the matches of each query, with its vectors [n, d] before query normalisation.

        Views are those of queries by their rows, normalised [VIEWS, d].
        """
        tail = self.fitted.tail
        searched = [(row, -1) for row in range(len(queries))]
        if tail is None:
            views = {}
        searched += product(views, range(VIEWS))
        limit = np.inf if self.threshold is None or self.candidates else -self.threshold
        # a query may find itself, and what a person said that it does not copy
        depth = self.wanted + 1 + max(self._rejected[digest] for _, digest in queries)
        every = np.concatenate([self.extractor.normalize(vectors), *views.values()])
        nearest = self.index.nearest(every, depth)
        distances = nearest.values
        if tail is not None:
            distances[len(queries) :] = tail.as_whole(distances[len(queries) :], VIEWS)
        hits: list[list[Hit]] = [[] for _ in queries]
        for (row, view), *found in zip(searched, distances.tolist(), nearest.rows.tolist(), strict=True):
            for distance, place in zip(*found, strict=True):
                if distance <= limit and self._files(queries[row], self.index.digests[place]):
                    hits[row].append((distance, place, view))
        return [
            self._make_matches(query, self._choose_hits(own))
            for query, own in zip(queries, hits, strict=True)
        ]

    def _choose_hits(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the nearest hit of each content, the nearest first.

        Where the whole is a copy for sure, only those of the first view, a picture on a page: it may be a copy of another one.
        """
        whole = [-distance for distance, _, view in hits if view < 0]
        is_sure = self.threshold is not None and max(whole, default=-np.inf) >= self.threshold
        nearest: dict[int, Hit] = {}
        for hit in sorted(hits, key=lambda hit: hit[:2]):
            if hit[2] <= 0 or not is_sure:
                nearest.setdefault(hit[1], hit)
        return list(nearest.values())[: self.wanted]

    def _make_views(self, queries: Sequence[Query]) -> dict[int, Floats]:
        """Return the normalised vectors [VIEWS, d] of the views of those queries that can be read, by their rows."""
        self.verdicts.know(queries)
        normalizer = self.extractor.normalizer
        normalized_by = normalizer and repr((normalizer.variant, normalizer.settings))
        made_by = [network.made_by for network in self.extractor.networks]
        given = [self.extractor.identity, normalized_by, *made_by]
        found: dict[int, Floats] = {}
        unknown = []
        for row, (path, _) in enumerate(queries):
            known = self.verdicts.find((path,), "views", given)
            if known is None:
                unknown.append(row)
            else:
                found[row] = known
        find = self.looks.views if self.looks else lambda path: None
        embedded = embed_views(self.extractor, [queries[row][0] for row in unknown], find)
        made = {row: views for row, views in zip(unknown, embedded, strict=True) if views is not None}
        if made:  # normalised together: for those of one picture alone it takes three times as long
            normalized = self.extractor.normalize(np.concatenate(list(made.values())))
            for row, views in zip(made, np.split(normalized, len(made)), strict=True):
                found[row] = views
                self.verdicts.note((queries[row][0],), "views", given, views)
        return dict(sorted(found.items()))

    def _make_matches(self, query: Query, hits: Sequence[Hit]) -> list[Match]:
        """Return matches with the files of the hits; byte-identical files score 0, however far normalisation moved the query.

        After them come the files that the user decided are copies of the query.
        """
        path, digest = query
        tail = self.fitted.tail
        distances = np.array([distance for distance, _, _ in hits])
        expected = tail.false_alarms(distances, self.index.ntotal).tolist() if tail else [None] * len(hits)
        known = {digest: Match(path, path, 0.0, 0.0, same_bytes=True)}
        chosen = self._accepted.get(digest, [])
        score_pairs = read_scores(self.store, self.extractor, [digest, *chosen] if chosen else [])
        for other, score in zip(chosen, score_pairs([(digest, other) for other in chosen]), strict=True):
            known.setdefault(other, Match(path, path, float(score), 0.0))
        for (distance, row, view), alarms in zip(hits, expected, strict=True):
            crop = view if 0 <= view < len(CROPS) else None
            known.setdefault(self.index.digests[row], Match(path, path, -distance, alarms, crop=crop))
        return [
            replace(match, reference=file)
            for other, match in known.items()
            for file in self._files(query, other)
        ]

    def _files(self, query: Query, other: bytes) -> list[Path]:
        """Return the files of a content that may be reported for a query."""
        path, digest = query
        if self.decided.get(frozenset((digest, other))) is False:
            return []
        return [file for file in self._read(other) if file != path]

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


def read_scores(store: index_store.Store, extractor: Extractor, digests: Iterable[bytes]) -> PairScorer:
    """Return what scores pairs of these pictures, given their digests, as a search does: −‖q − r‖², float64 [pairs].

    Of the two directions the higher score counts; −∞ stands for a pair with an unreadable or unknown picture.

    Raises:
        UserError: when the index is damaged.
    """
    known: dict[bytes, Doubles] = {}  # vectors [2, d], as a reference and as a query
    found = index_store.vectors_by_digest(store, set(digests))
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
        verified = MOST_REFERENCES if everything else 0
    if views is None:
        views = everything and rule.tail is not None
    left_out = ""
    if unsaid and not everything:
        left_out = (
            f"more than {MOST_VERIFIED:,} pictures: pairs were not verified by local features, and turned pictures, crops and "
            "pictures on a page may have been missed. --verify --views looks for them"
        )
    return verified, views, left_out
