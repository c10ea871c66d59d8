"""Searching a stored index: which references queries copy, or which pictures of the index are copies of each other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.extractor import Extractor
from image_copies.matching.index.decisions import read_decisions
from image_copies.matching.index.filling import IMAGES_PER_COMMIT, embed_queries
from image_copies.matching.index.search import Neighbours, open_search
from image_copies.matching.index.store import (
    Store,
    contents_of,
    digests_of_files,
    read_content_files,
    stored_files,
    unreadable_files,
    vectors_by_digest,
)
from image_copies.matching.index.verdicts import NOTHING_KEPT, Files, Verdicts
from image_copies.matching.looks import Looks
from image_copies.matching.matches import Exclusions, Match, Matches, Rule
from image_copies.matching.views import CROPS, VIEWS, embed_views

QUERIES_PER_BLOCK = IMAGES_PER_COMMIT
# expected false alarms per query up to which few lists of a large index hold what is nearer
MAX_NEAR_ALARMS = 0.002
MAX_KNOWN_FILES = 100_000  # contents whose files are read once in a search
MAX_EXAMINED_REFERENCES = 2000  # references examined for one query where the nearest ones are excluded
T = TypeVar("T")


class Hit(NamedTuple):
    """The number of a content, the squared distance, and the number of the query's view that is so near; −1 for the whole."""

    content: int
    distance: float
    view: int = -1


Queries = list[tuple[Path, bytes]]  # each with its path and digest


@dataclass
class Search:
    """One search: the store's Faiss index, the rule, and what is excluded."""

    store: Store
    extractor: Extractor
    rule: Rule
    exclusions: Exclusions = field(default_factory=Exclusions)
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
        digests = embed_queries(
            self.store, self.extractor, paths, None if self.looks is None else self.looks.look
        )
        unreadable = [path for path in paths if path not in digests]
        pairs: list[Match] = []

        def choose() -> Iterator[tuple[Queries, NDArray[np.float32]]]:
            for part in _split_into_blocks([path for path in paths if path in digests]):
                vectors = vectors_by_digest(self.store, {digests[path] for path in part})
                unreadable.extend(path for path in part if vectors[digests[path]] is None)
                readable = [(path, vector) for path in part if (vector := vectors[digests[path]]) is not None]
                if readable:
                    yield (
                        [(path, digests[path]) for path, _ in readable],
                        np.stack([vector for _, vector in readable]),
                    )

        for path, digest, hits in self._search_blocks(choose()):
            pairs += self._make_matches(path, digest, hits)[: self.wanted]
        known = digests_of_files(self.store, {match.reference for match in pairs})
        missing = unreadable + [path for path in unreadable_files(self.store) if path not in unreadable]
        return self._collect_matches(pairs, len(paths), missing, known | digests)

    def near(
        self,
        vectors: NDArray[np.float32],
        digests: Sequence[bytes],
        views: Sequence[NDArray[np.float32] | None] = (),
    ) -> list[list[Match]]:
        """Find the references that pictures copy, best first, given vectors [n, d] before query normalisation, not files.

        Digests are the SHA-256 of each picture's bytes; empty where they are not known. Views are the vectors [VIEWS, d] of each
        picture's views, with which it is searched for, too; () for none of any.
        """
        query = Path("<picture>")
        allowed = [self._make_filter(query, digest) if digest else _allow_all for digest in digests]
        hits = self._find_hits(self.extractor.normalize(vectors), allowed, self._limit)
        made = {
            row: self.extractor.normalize(of_views)
            for row, of_views in enumerate(views)
            if of_views is not None
        }
        self._merge_views(made, hits, allowed)
        return [
            self._make_matches(query, digest, found)[: self.wanted]
            for digest, found in zip(digests, hits, strict=True)
        ]

    def nearest(self, path: Path, digest: bytes) -> Match | None:
        """Return the reference nearest to a picture that was searched, whatever its score; None where there is none."""
        vector = vectors_by_digest(self.store, [digest]).get(digest)
        if vector is None or not self.index.ntotal:
            return None
        one = replace(self, candidates=1, opened=self.index)
        (hits,) = one._find_hits(
            self.extractor.normalize(vector[None]), [self._make_filter(path, digest)], np.inf
        )
        return next(iter(one._make_matches(path, digest, hits)), None)

    def within(self) -> Matches:
        """Find the pictures of the index that are copies of each other; each pair once, with the higher of its two scores.

        Raises:
            UserError: when the index is damaged, or there are too few training vectors to normalise against.
        """
        best: dict[tuple[Path, Path], Match] = {}

        def choose() -> Iterator[tuple[Queries, NDArray[np.float32]]]:
            for part in _split_into_blocks(self.index.numbers().tolist()):
                chosen = [(number, path) for number in part for path in self._representatives(number)]
                if not chosen:
                    continue  # removed by another process meanwhile
                vectors = self.index.vectors_of(np.array([number for number, _ in chosen]))
                yield [(path, self._read(number)[0]) for number, path in chosen], vectors

        for path, digest, hits in self._search_blocks(choose()):
            for match in self._make_matches(path, digest, hits):
                pair = min(match.files), max(match.files)
                if pair not in best or best[pair].score < match.score:
                    best[pair] = match
        files = stored_files(self.store)
        return self._collect_matches(best.values(), len(files), unreadable_files(self.store), files)

    def _collect_matches(
        self, pairs: Iterable[Match], queries: int, unreadable: list[Path], digests: Mapping[Path, bytes]
    ) -> Matches:
        ordered, index = sorted(pairs, key=lambda match: (-match.score, *match.files)), self.index
        return Matches(
            ordered, self.threshold, queries, index.ntotal, unreadable, exact=index.exact, digests=digests
        )

    def _representatives(self, content: int) -> list[Path]:
        """Return the first file of a content; with --no-self the first one below each folder."""
        chosen: dict[int | None, Path] = {}
        for path in self._read(content)[1]:
            chosen.setdefault(self.exclusions.folder_of(path), path)
        return list(chosen.values())

    def _make_filter(self, query: Path, digest: bytes) -> Callable[[int], bool]:
        """Return a function that tells whether a content has a file that may be reported for the query."""
        rejected, folders = self.exclusions.rejected, self.exclusions.folders

        def allowed(content: int) -> bool:
            other, files = self._read(content)
            if frozenset((digest, other)) in rejected:
                return False
            return any(
                path != query and not (folders and self.exclusions.same_folder(query, path)) for path in files
            )

        return allowed

    def _search_blocks(
        self, blocks: Iterator[tuple[Queries, NDArray[np.float32]]]
    ) -> Iterator[tuple[Path, bytes, list[Hit]]]:
        """Yield the path, the digest and the nearest allowed contents of each query.

        The vectors float32 [n, d] of a block are those before query normalisation.
        """
        for queries, vectors in blocks:
            allowed = [self._make_filter(*query) for query in queries]
            found = self._find_hits(self.extractor.normalize(vectors), allowed, self._limit)
            if self.views:
                self._add_views(queries, found, allowed)
            for (path, digest), hits in zip(queries, found, strict=True):
                yield path, digest, hits

    @property
    def _limit(self) -> float:
        """The largest squared distance of a hit."""
        return np.inf if self.threshold is None or self.candidates else -self.threshold

    def _add_views(
        self, queries: Queries, found: list[list[Hit]], allowed: Sequence[Callable[[int], bool]]
    ) -> None:
        """Add to the hits of queries those of their views."""
        self.verdicts.know(queries)
        normalizer = self.extractor.normalizer
        given = [self.extractor.identity, normalizer and repr((normalizer.variant, normalizer.settings))]
        for rows in _split_into_blocks(range(len(queries))):
            files = {row: (queries[row][0],) for row in rows}
            views = self.verdicts.ask_all(list(files.values()), "views", given, self._embed_views)
            self._merge_views({row: views[files[row]] for row in rows if files[row] in views}, found, allowed)

    def _embed_views(self, asked: Sequence[Files]) -> dict[Files, NDArray[np.float32]]:
        """Return the normalised vectors [VIEWS, d] of the views of each file that can be read."""
        known = () if self.looks is None else (self.looks.views,)
        made = embed_views(self.extractor, [path for (path,) in asked], *known)
        views = {files: vectors for files, vectors in zip(asked, made, strict=True) if vectors is not None}
        if not views:
            return {}
        normalized = self.extractor.normalize(np.concatenate(list(views.values())))
        return dict(zip(views, np.split(normalized, len(views)), strict=True))

    def _merge_views(
        self,
        views: Mapping[int, NDArray[np.float32]],
        found: list[list[Hit]],
        allowed: Sequence[Callable[[int], bool]],
    ) -> None:
        """Add to the hits of queries, by their rows, the nearest contents of their normalised views [VIEWS, d].

        Where a hit is a copy for sure, only those of the first, a picture on a page: it may be a copy of another one.
        """
        tail = self.fitted.tail
        if not views or tail is None:
            return
        filters = [allowed[row] for row in views for _ in range(VIEWS)]
        near = iter(
            self._find_hits(np.concatenate(list(views.values())), filters, tail.as_view(self._limit, VIEWS))
        )
        for row in views:
            of_views = [
                Hit(hit.content, tail.as_whole(hit.distance, VIEWS), view)
                for view in range(VIEWS)
                for hit in next(near)
            ]
            if self._is_sure(found[row]):
                of_views = [hit for hit in of_views if hit.view == 0]
            found[row] = _merge_hits([*found[row], *of_views])[: self.wanted]

    def _is_sure(self, hits: Sequence[Hit]) -> bool:
        """Whether the score of any hit is that of a copy."""
        return self.threshold is not None and any(-hit.distance >= self.threshold for hit in hits)

    def _find_hits(
        self, queries: NDArray[np.float32], allowed: Sequence[Callable[[int], bool]], limit: float
    ) -> list[list[Hit]]:
        """Return the nearest allowed contents of each query [n, d], up to a squared distance.

        Where the nearest ones are excluded, it looks deeper.
        """
        wanted, depth = self.wanted, self.wanted + 1  # a query may find itself
        result: list[list[Hit]] = [[] for _ in queries]
        rows, tail = np.arange(len(queries)), self.fitted.tail
        near: bool = tail is not None and bool(
            tail.false_alarms(np.array([limit]), self.index.ntotal)[0] <= MAX_NEAR_ALARMS
        )
        while len(rows):
            found, deeper = self.index.nearest(queries[rows], depth, near), []
            for row, contents, distances in zip(
                rows.tolist(), found.contents.tolist(), found.distances.tolist(), strict=True
            ):
                within = [Hit(*hit) for hit in zip(contents, distances, strict=True) if hit[1] <= limit]
                result[row] = [hit for hit in within if allowed[row](hit.content)][:wanted]
                if len(result[row]) < wanted and len(within) == depth:
                    deeper.append(row)
            rows = np.array(deeper, np.int64)
            if depth >= min(self.index.ntotal, MAX_EXAMINED_REFERENCES):
                break
            depth = min(4 * depth, self.index.ntotal, MAX_EXAMINED_REFERENCES)
        return result

    def _make_matches(self, query: Path, digest: bytes, hits: list[Hit]) -> list[Match]:
        """Return matches with the files of the hits; byte-identical files score 0, however far normalisation moved the query."""
        twins = [
            Match(query, path, 0.0, 0.0, same_bytes=True)
            for path in self._files(query, self._content_of(digest))
        ]
        known = twins + self._find_accepted(query, digest, {match.reference for match in twins})
        found = {match.reference for match in known}
        distances = np.array([hit.distance for hit in hits])
        tail = self.fitted.tail
        expected = tail.false_alarms(distances, self.index.ntotal).tolist() if tail else [None] * len(hits)
        return known + [
            Match(query, path, -hit.distance, alarms, crop=hit.view if 0 <= hit.view < len(CROPS) else None)
            for hit, alarms in zip(hits, expected, strict=True)
            for path in self._files(query, hit.content)
            if path not in found
        ]

    def _find_accepted(self, query: Path, digest: bytes, known: set[Path]) -> list[Match]:
        """Return matches with files that the user decided are copies of the query, unless they are already found."""
        chosen = self.exclusions.accepted.get(digest, frozenset())
        scores = PairScores(self.store, self.extractor).scores([(digest, other) for other in chosen])
        return [
            Match(query, path, float(score), 0.0)
            for other, score in zip(chosen, scores, strict=True)
            for path in self._files(query, self._content_of(other))
            if path not in known
        ]

    def _content_of(self, digest: bytes) -> int | None:
        return contents_of(self.store, [digest]).get(digest)

    def _files(self, query: Path, content: int | None) -> list[Path]:
        files = [] if content is None else self._read(content)[1]
        return [path for path in files if path != query and not self.exclusions.same_folder(query, path)]


class PairScores:
    """Scores of any two pictures that the index knows, as in a search; vectors are read once."""

    def __init__(self, store: Store, extractor: Extractor) -> None:
        self._store, self._extractor = store, extractor
        # vectors [d] as references and as queries; None of unreadable ones
        self._vectors: dict[bytes, tuple[NDArray[np.float64], NDArray[np.float64]] | None] = {}

    def scores(self, pairs: Sequence[tuple[bytes, bytes]]) -> NDArray[np.float64]:
        """Return −‖q − r‖² of each pair of digests, float64 [pairs], the higher of its two directions.

        −∞ stands for a pair with an unreadable or unknown picture.

        Raises:
            UserError: when the index is damaged.
        """
        self._read({digest for pair in pairs for digest in pair} - self._vectors.keys())
        result = np.full(len(pairs), -np.inf)
        for row, pair in enumerate(pairs):
            one, other = map(self._vectors.get, pair)
            if pair[0] == pair[1]:
                result[row] = 0.0
            elif one is not None and other is not None:
                result[row] = -min(_squared_distance(one[1], other[0]), _squared_distance(other[1], one[0]))
        return result

    def _read(self, digests: Iterable[bytes]) -> None:
        for part in _split_into_blocks(sorted(digests)):
            self._vectors |= dict.fromkeys(part)
            found = vectors_by_digest(self._store, part)
            readable = {digest: vector for digest, vector in found.items() if vector is not None}
            if readable:
                raw = np.stack(list(readable.values()))
                both = zip(
                    raw.astype(np.float64), self._extractor.normalize(raw).astype(np.float64), strict=True
                )
                self._vectors |= zip(readable, both, strict=True)


def make_exclusions(store: Store, folders: Sequence[Path] = ()) -> Exclusions:
    """Return what a person decided about the pictures of an index; pictures below the same one of `folders` are not compared."""
    known = read_decisions(store)
    accepted: dict[bytes, frozenset[bytes]] = {}
    for decision in known:
        if decision.copy:
            for one, other in ((decision.first, decision.second), (decision.second, decision.first)):
                accepted[one] = accepted.get(one, frozenset()) | {other}
    return Exclusions(frozenset(decision.pair for decision in known if not decision.copy), accepted, folders)


def _squared_distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float(((one - other) ** 2).sum())


def _allow_all(content: int) -> bool:
    return True


def _merge_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits, nearest first, each content once."""
    nearest: dict[int, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (hit.distance, hit.content)):
        nearest.setdefault(hit.content, hit)
    return list(nearest.values())


def _split_into_blocks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), QUERIES_PER_BLOCK):
        yield items[start : start + QUERIES_PER_BLOCK]
