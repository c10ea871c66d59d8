"""Codes of a stored index's vectors, for approximate search: inverted lists with product quantisation (IVF-PQ, fast scan).

Every file of vectors has a file of codes next to it. All codes come from one quantiser, trained on a sample of the vectors. Codes
and quantiser can be computed again from the vectors at any time. The name of a file of codes contains the digests of the vectors
and of the quantiser that it was made from, so that a stale file is recognised.

Both are Faiss's IndexRefine of two inverted files with the same lists: coarse codes tell copies from all else, and are compared
three times as fast as the fine ones, which tell neighbours at any distance apart. The coarse code of a vector is in two lists: a
copy that lies far from the one is near the other (SOAR), so fewer lists are searched.

H. Jégou, M. Douze, C. Schmid: Product quantization for nearest neighbor search (2011). F. André, A.-M. Kermarrec,
N. Le Scouarnec: Cache locality is not enough: high-performance nearest neighbor search with product quantization fast scan
(2015). P. Sun, D. Simcha, D. Dopson, R. Guo, S. Kumar: SOAR: improved indexing for approximate nearest neighbor search (2023).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.shards import Place, ShardWork, run_shards
from image_copies.matching.index.index_files import open_intact_index, require_index, write_index
from image_copies.matching.index.segments import (
    Rows,
    Segment,
    forget_files,
    open_segment_file,
    take_nearest,
)

if TYPE_CHECKING:
    import faiss

MIN_CODED_CONTENTS = 500_000  # below this, no codes: one query's exact search takes less than 0.05 s
LISTS_PER_ROOT = 4  # inverted lists per square root of the number of contents; fewer where there are too few to train them
PROBED_LISTS = 0.6  # lists searched for a query's copies, times the number of lists to this power: 302 of 4,000 (docs/scale.md);
PROBED_LISTS_POWER = 0.75  # among more lists, copies scatter over more of them, but over a smaller share
COARSE_COORDINATES = 4  # that share 4 bits of a coarse code, where this divides the number of dimensions
PROBED_LIST_SHARE = 0.5  # share of the lists, if more, searched for neighbours at any distance, which scatter over many lists
TRAINING_VECTORS_PER_LIST = 64  # vectors that the quantiser is trained on, per list
MAX_GROWTH = 4  # the quantiser is trained again once the index holds more than this many times the contents it was trained for
KMEANS_ROUNDS = 10  # iterations of k-means, for the lists and for the codes
COARSE_LISTS = 2  # lists that a coarse code is in, where there are so many
SECOND_LISTS = 10  # lists nearest to a vector, of which its second one is chosen
VECTORS_PER_BLOCK = 4096  # vectors encoded at once
QUANTIZER_NAME = re.compile(r"quantizers-(\d+)-([0-9a-f]{16})\.faiss")


@dataclass(frozen=True)
class Quantizer:
    """A trained quantiser without vectors, its file and the first 16 hexadecimal digits of the file's SHA-256."""

    digest: str
    path: Path
    index: "faiss.Index"


@dataclass(frozen=True)
class Codes:
    """The codes of one segment, ready to search, and their file."""

    path: Path
    index: Any

    def inverted_file(self, near: bool) -> Any:
        """Return the inverted file of the coarse codes, for `near` copies, or that of the fine ones."""
        import faiss

        return faiss.downcast_index(self.index.base_index if near else self.index.refine_index)

    def holds(self, count: int) -> bool:
        """Whether these are the codes of `count` vectors, as they are written today."""
        coarse = self.inverted_file(near=True)
        return bool(coarse.ntotal == count * min(COARSE_LISTS, coarse.nlist))


@dataclass(frozen=True)
class Probed:
    """The lists to search for each query, the same in all segments of an index."""

    near: bool  # by the coarse codes
    distances: NDArray[np.float32]  # squared, to the lists' centroids [n, p]
    lists: NDArray[np.int64]  # their numbers [n, p], nearest first

    def search(self, codes: Codes, queries: NDArray[np.float32], rows: Rows, count: int) -> tuple[Any, Any]:
        """Search a segment's codes for these of the queries [n, d]; see `segments.LookUp`."""
        index = codes.inverted_file(self.near)
        index.nprobe = self.lists.shape[1]  # or Faiss refuses them
        depth = COARSE_LISTS * count if self.near else count
        distances, places = index.search_preassigned(queries[rows], depth, self.lists[rows], self.distances[rows])
        return _drop_repeated(distances, places, count) if self.near else (distances, places)


def _drop_repeated(
    distances: NDArray[np.float32], places: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the `count` nearest of each row [n, m] without those found in more than one list."""
    order = np.argsort(places, axis=1, kind="stable")
    places, distances = np.take_along_axis(places, order, 1), np.take_along_axis(distances, order, 1)
    repeated = np.zeros(places.shape, np.bool_)
    repeated[:, 1:] = places[:, 1:] == places[:, :-1]
    distances[repeated], places[repeated] = np.inf, -1
    return take_nearest(distances, places, count)


def choose_lists(codes: Codes, queries: NDArray[np.float32], near: bool) -> Probed:
    """Choose the lists to search for queries [n, d]: `near` for copies that are reported, else for any neighbours."""
    index = codes.inverted_file(near)
    probed = PROBED_LISTS * index.nlist**PROBED_LISTS_POWER if near else PROBED_LIST_SHARE * index.nlist
    return Probed(near, *index.quantizer.search(queries, min(max(1, round(probed)), index.nlist)))


def open_codes(folder: Path, segments: Sequence[Segment]) -> list[Codes | None]:
    """Open the codes of every segment; missing, damaged and stale ones are computed again and written, each as a shard.

    A segment that is in memory only has none.

    Raises:
        UserError: The disk is full.
    """
    count = sum(segment.ntotal for segment in segments)
    quantizer = _open_quantizer(folder, count) or _train_quantizer(folder, segments, count)
    codes = [_find_codes(folder, segment, quantizer) for segment in segments]
    lacking = [number for number, segment in enumerate(segments) if segment.path is not None and codes[number] is None]
    work = ShardWork(
        name="encoding vectors",
        unit="vector",
        open=partial(require_index, quantizer.path.absolute()),
        work=_encode_segment,
        size=_count_vectors,
        folder=folder.absolute(),
        opened_as=f"quantizer {quantizer.digest}",
    )
    shards = [
        _Uncoded(path.absolute(), quantizer.digest, len(segments[n].numbers)) for n in lacking if (path := segments[n].path)
    ]
    for number, path in zip(lacking, run_shards(work, shards, sum(map(_count_vectors, shards))), strict=True):
        codes[number] = Codes(path, require_index(path))
    forget_files(folder, "quantizer*.faiss", {quantizer.digest})
    kept = {f"codes-{segment.digest}-{quantizer.digest}" for segment in segments}
    stale = [path for path in folder.glob("codes-*.faiss") if path.stem.rpartition("-")[0] not in kept]
    for path in stale:
        forget_files(folder, path.name, set())
    return codes


def _open_quantizer(folder: Path, count: int) -> Quantizer | None:
    """Open an intact quantiser that was trained for at least `count / MAX_GROWTH` contents; None if there is none."""
    for path in sorted(folder.glob("quantizers-*.faiss")):
        match = QUANTIZER_NAME.fullmatch(path.name)
        if match and count <= MAX_GROWTH * int(match[1]) and (index := open_intact_index(path)) is not None:
            return Quantizer(match[2], path, index)
    return None


def _train_quantizer(folder: Path, segments: Sequence[Segment], count: int) -> Quantizer:
    """Train a quantiser for an index of `count` contents on a sample of the segments' vectors, and write it."""
    dimensions = segments[0].dimensions
    lists = max(1, min(round(LISTS_PER_ROOT * count**0.5), count // TRAINING_VECTORS_PER_LIST))
    import faiss  # imported here: exact search works without it

    sample = _sample_vectors(segments, TRAINING_VECTORS_PER_LIST * lists)
    parts = dimensions // math.gcd(dimensions, COARSE_COORDINATES), dimensions
    coarse, fine = list[Any](faiss.index_factory(dimensions, f"IVF{lists},PQ{part}x4fs") for part in parts)
    coarse.cp.niter, coarse.cp.max_points_per_centroid = KMEANS_ROUNDS, TRAINING_VECTORS_PER_LIST
    coarse.pq.cp.niter = fine.pq.cp.niter = KMEANS_ROUNDS
    coarse.train(sample)
    fine.quantizer.add(coarse.quantizer.reconstruct_n(0, lists))
    fine.train(sample)
    index = faiss.IndexRefine(coarse, fine)
    digest = write_index(index, folder, f"quantizers-{count}")
    return Quantizer(digest, folder / f"quantizers-{count}-{digest}.faiss", index)


def _sample_vectors(segments: Sequence[Segment], count: int) -> NDArray[np.float32]:
    """Sample about `count` vectors [m, d], from each segment in proportion to its size; the same ones at every call."""
    rng = np.random.default_rng(0)
    held = sum(len(segment.numbers) for segment in segments)
    parts = []
    for segment in segments:
        own = len(segment.numbers)
        chosen = rng.choice(own, min(own, -(-count * own // held)), replace=False)
        parts.append(segment.vectors[np.sort(chosen)])
    return np.concatenate(parts)


def _find_codes(folder: Path, segment: Segment, quantizer: Quantizer) -> Codes | None:
    """Open the codes of one segment; None if there are no intact ones. Those of an earlier version are removed."""
    for path in folder.glob(f"codes-{segment.digest}-{quantizer.digest}-*.faiss") if segment.digest else ():
        index = open_intact_index(path)
        if index is None:
            continue
        if (codes := Codes(path, index)).holds(len(segment.numbers)):
            return codes
        forget_files(folder, path.name, set())
    return None


@dataclass(frozen=True)
class _Uncoded:
    """A segment without codes: its file, the quantiser's digest and the number of its vectors."""

    path: Path
    quantizer: str
    count: int


def _count_vectors(segment: _Uncoded) -> int:
    return segment.count


def _encode_segment(quantizer: Any, segment: _Uncoded, place: Place) -> Path:
    """Compute the codes of a segment, write them next to it and return their file."""
    import faiss

    trained = list[Any](map(faiss.downcast_index, (quantizer.base_index, quantizer.refine_index)))
    coarse, fine = map(_copy_empty, trained)
    stored, lists = open_segment_file(segment.path, np.zeros(0, np.int64)), trained[0].quantizer
    centroids = lists.reconstruct_n(0, lists.ntotal)
    for first in range(0, len(stored.vectors), VECTORS_PER_BLOCK):
        vectors = np.ascontiguousarray(stored.vectors[first : first + VECTORS_PER_BLOCK])
        chosen = choose_two_lists(vectors, lists.search(vectors, min(SECOND_LISTS, len(centroids)))[1], centroids)
        _add_to_lists(fine, vectors, first, chosen[:1])
        _add_to_lists(coarse, vectors, first, chosen)
        place.advance(len(vectors))
    packed = [faiss.IndexIVFPQFastScan(part) for part in (coarse, fine)]
    index: Any = faiss.IndexRefine(*map(_copy_empty, trained))
    index.base_index, index.refine_index = packed  # Faiss makes none of two of different lengths
    index.own_fields = index.own_refine_index = True  # assigned, they are Python's no longer
    name = f"codes-{stored.digest}-{segment.quantizer}"
    return segment.path.parent / f"{name}-{write_index(index, segment.path.parent, name)}.faiss"


def _copy_empty(trained: "faiss.IndexIVFPQFastScan") -> "faiss.IndexIVFPQ":
    """Return an inverted file with the same lists and codes, not packed yet: vectors can be added to lists of one's choice."""
    import faiss

    empty = faiss.IndexIVFPQ(trained.quantizer, trained.d, trained.nlist, trained.pq.M, trained.pq.nbits)
    empty.by_residual, empty.pq, empty.is_trained = trained.by_residual, trained.pq, True
    return empty


def choose_two_lists(
    vectors: NDArray[np.float32], nearest: NDArray[np.int64], centroids: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Choose the lists [COARSE_LISTS, n] of vectors [n, d] among the nearest [n, k]: the first, and what complements it.

    A query that is far from the first list's centroid lies, seen from there, beyond the vector. So the second list is one near
    whose error e₂, vector less centroid, has little of the first one's direction (SOAR): ‖e₂‖² + (e₂ · e₁ / ‖e₁‖)² is least.
    """
    if nearest.shape[1] == 1:
        return nearest.T
    errors = vectors[:, None] - centroids[nearest]
    first, others = errors[:, 0], errors[:, 1:]
    squares = (others**2).sum(axis=2)
    along = np.einsum("nkd,nd->nk", others, first) ** 2 / np.maximum((first**2).sum(axis=1), np.finfo(np.float32).tiny)[:, None]
    second = 1 + (squares + along).argmin(axis=1)
    return np.stack([nearest[:, 0], nearest[np.arange(len(nearest)), second]])


def _add_to_lists(index: "faiss.IndexIVFPQ", vectors: NDArray[np.float32], first: int, lists: NDArray[np.int64]) -> None:
    """Add vectors [n, d], which are numbered from `first` on, to each of their lists [m, n]."""
    import faiss

    numbers = np.arange(first, first + len(vectors))
    for own in lists:
        index.add_core(len(vectors), *map(faiss.swig_ptr, (vectors, numbers, own)))
