"""Approximate search in collections larger than memory: any Faiss index, inverted lists on disk, recall against exact search.

Distances by codes are approximate. With a second look, candidates are compared again with the stored vectors, so that distances
are exact and only neighbours that are not among the candidates can be missed. Neither vectors nor codes need fit into memory.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file, write_text
from image_copies.data.shards import Place, ShardWork, run_shards, uses_engine
from image_copies.submissions.search.exact import rank_exactly
from image_copies.submissions.search.index_files import digest_of_file, is_intact, write_index
from image_copies.submissions.search.nearest import search_nearest
from image_copies.submissions.search.on_gpu import cluster_on_gpu, copy_to_gpu
from image_copies.submissions.search.references import PAIRS_WORTH_SENDING
from image_copies.submissions.search.shard_codes import (
    LISTS_FILE,
    encode_shards,
    has_plain_lists,
    map_in_single_threads,
    merge_codes,
    silence_faiss,
)
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors
from image_copies.submissions.vectors.stored import StoredVectors

INDEX_FILE, CHECKSUMS_FILE = "references.faiss", "references.sha256"
UNSUPPORTED = "NSG"  # graphs whose construction in Faiss may never end, and that take vectors only once
MIN_TRAINING_VECTORS = 65_536  # the most that Faiss trains a product quantiser on: 256 for each of its 256 centroids
VECTORS_PER_LIST = 40  # training vectors for each inverted list; Faiss warns below 39 for each k-means centroid
CANDIDATES_PER_NEIGHBOUR = 50  # candidates whose exact distances are computed, for each neighbour asked for
QUERIES_PER_BLOCK = 32  # searched by one thread
BLOCKS_PER_SHARD = 4
QUERIES_PER_GPU_BLOCK = 1024
NEIGHBOURS = 10  # that recall is measured with
Found = tuple[NDArray[np.float64], NDArray[np.int64]]  # squared distances [n, k], numbers [n, k]


class Training(Protocol):
    """Vectors that an index is trained on."""

    @property
    def dimensions(self) -> int:
        """Dimensions d."""

    @property
    def name(self) -> str:
        """How messages refer to them."""

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw at most `count` vectors of readable images, float32 [m, d]."""


@dataclass(frozen=True)
class StoredIndex:
    """An index on disk, and the vectors that it was built from.

    Attributes:
        folder: Its folder.
        vectors: The vectors.
        probes: Inverted lists searched for each query (Faiss's nprobe); None for the square root of their number.
        candidates: Candidates per neighbour that are compared exactly; 0 to rank by the distances of the codes.
        on_gpu: Whether Faiss searches a copy of it on this process's GPU.
    """

    folder: Path
    vectors: StoredVectors
    probes: int | None = None
    candidates: int = CANDIDATES_PER_NEIGHBOUR
    on_gpu: bool = False


@dataclass(frozen=True)
class Recall:
    """How often an index finds the exact nearest reference (recall 1@1 and 1@10).

    Attributes:
        at_1: Share 0…1 of queries whose exact nearest reference the index ranks first.
        at_10: Share 0…1 of queries whose exact nearest reference is among the index's first ten.
        queries: Number of queries searched.
        seconds: Duration of the index's search.
    """

    at_1: float
    at_10: float
    queries: int
    seconds: float


def build_index(
    factory: str,
    training: Training,
    references: StoredVectors,
    folder: Path,
    codes: Path,
    seed: int = 0,
    vectors_per_list: int = VECTORS_PER_LIST,
    on_gpu: bool = False,
    report: Callable[[str], object] = lambda line: None,
) -> None:
    """Train an index on a sample of the training vectors, add the references shard by shard and write it to `folder`.

    Plain inverted lists are merged on disk from the codes of shards, which the engine in use encodes; an index without them, or
    with lists in another form (fast scan, refinement), is built in memory, in this process.

    Args:
        factory: A string of Faiss's index factory, such as "IVF1024,SQ8".
        training: Vectors that the index is trained on.
        references: Vectors to search in; the index has their numbers.
        folder: Existing folder that the index is written to.
        codes: Existing folder, of this factory and training, that the trained quantiser and the shards' codes are kept in; those
            that lie there are used again.
        seed: Seed of the training sample.
        vectors_per_list: Training vectors for each inverted list.
        on_gpu: Whether the training vectors are clustered on this process's GPU.
        report: Called with a line about what takes long without showing progress, or is damaged and made again.

    Raises:
        UserError: when Faiss rejects `factory`, or it is not supported, there are too few training vectors for it, no reference
            is readable, a folder lies in the place of codes, the disk has too little space, or there is no GPU that is asked for.
    """
    if not len(references):
        raise UserError(f"{references.name} holds no vector of a readable image. Embed the references again (step 02).")
    for path in sorted(codes.glob("*.faiss")):
        if path.is_dir():
            raise UserError(f"{path} is a folder, but the index keeps a file there. Remove {codes} and repeat the command.")
    found = sorted(codes.glob("quantizer-*.faiss"))
    quantizer = next(filter(is_intact, found), None)
    if found and quantizer is None:
        report(f"  {found[0]} is damaged and made again")
    if quantizer is not None:
        index = faiss.read_index(str(quantizer))
    else:
        index = _train_on_sample(factory, training, seed, vectors_per_list, on_gpu, report)
    if has_plain_lists(index):
        if quantizer is None:
            quantizer = codes / f"quantizer-{write_index(index, codes, 'quantizer')}.faiss"
        merge_codes(index, encode_shards(quantizer, references, codes, report), folder, len(references))
    else:
        try:
            for shard in references.divide(MIN_TRAINING_VECTORS):
                index.add(shard.load())
        except RuntimeError as error:
            raise UserError(
                f"the index {factory!r} cannot number references by their row: {error}. Remove IDMap from it."
            ) from error
    with whole_file(folder / INDEX_FILE) as temporary:
        faiss.write_index(index, str(temporary))
    files = [path for path in (folder / INDEX_FILE, folder / LISTS_FILE) if path.is_file()]
    write_text(folder / CHECKSUMS_FILE, "".join(f"{digest_of_file(path)}  {path.name}\n" for path in files))


def find_damaged_file(folder: Path) -> Path | None:
    """Return a file of an index that is not as `build_index` wrote it; None if all are, or if there are no checksums.

    The whole index is read. Indexes that were made before they had checksums are taken as they are.
    """
    checksums, files = folder / CHECKSUMS_FILE, (INDEX_FILE, LISTS_FILE)
    if not checksums.is_file():
        return None
    lines = checksums.read_text("utf-8", "replace").splitlines()
    recorded = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if not recorded.keys() <= set(files) or any(name not in recorded and (folder / name).is_file() for name in files):
        return checksums
    for name, digest in recorded.items():
        try:
            if digest_of_file(folder / name) != digest:
                return folder / name
        except OSError:
            return folder / name
    return None


def open_index(folder: Path, probes: int | None = None) -> faiss.Index:
    """Open an index that `build_index` wrote, with its inverted lists memory-mapped.

    Args:
        folder: The folder of the index.
        probes: Number of inverted lists searched for each query (Faiss's nprobe); None for the square root of their number.

    Raises:
        UserError: when the index is missing or damaged, or `probes` is given for an index without inverted lists.
    """
    path = folder / INDEX_FILE
    try:
        with silence_faiss():
            index = faiss.read_index(str(path), faiss.IO_FLAG_ONDISK_SAME_DIR | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError as error:
        raise UserError(f"{path} cannot be read as a Faiss index ({error}). Delete {folder} and build it again.") from error
    lists = faiss.try_extract_index_ivf(index)
    if lists is not None:
        lists.nprobe = min(probes or math.isqrt(lists.nlist), lists.nlist)
    elif probes is not None:
        raise UserError(f"{path} has no inverted lists, which --nprobe counts: omit --nprobe, or build an IVF index.")
    return index


def search_stored(index: StoredIndex, queries: NDArray[np.float32], count: int) -> Found:
    """Find the nearest references of each query by an index; what is found does not depend on threads, processes or the engine.

    With a second look, references at exactly equal distances are ordered by number.

    Args:
        index: The index.
        queries: float32 [n, d].
        count: Number of neighbours k.

    Returns:
        Squared distances, exact ones or those of codes, and numbers, both [n, k]; infinity (of codes, a huge number) and −1 where
        too few were found.

    Raises:
        UserError: when the index is missing or damaged, or was built from other vectors.
    """
    queries, index = np.ascontiguousarray(queries, np.float32), replace(index, folder=index.folder.absolute())
    here = not uses_engine() or len(queries) * len(index.vectors) < PAIRS_WORTH_SENDING
    size = len(queries) if here else QUERIES_PER_BLOCK * BLOCKS_PER_SHARD
    work = ShardWork(
        name="searching the index",
        unit="look-up",
        open=partial(_open_stored, index),
        work=partial(_search_queries, count),
        size=len,
        inputs=(index.folder / INDEX_FILE,),
    )
    shards = [queries[first : first + size] for first in range(0, len(queries), max(size, 1))]
    found = list(run_shards(work, shards, len(queries), here=here))
    return _join([(np.zeros((0, count)), np.zeros((0, count), np.int64)), *found])


def measure_recall(
    indexes: Sequence[StoredIndex], queries: ConcatenatedVectors, sample: int = 1000, seed: int = 0
) -> list[Recall]:
    """Measure the recall of indexes against exact search, on a sample of the queries.

    Args:
        indexes: The indexes to measure, of the same vectors.
        queries: Vectors to search with.
        sample: Number of queries, at most.
        seed: Seed of the sample.

    Raises:
        UserError: when no query is readable, or an index is missing or damaged, or was built from other vectors.
    """
    asked, recalls = queries.sample(sample, seed), []
    if not len(asked):
        raise UserError(f"{queries.name} holds no vector of a readable image to search with. Embed the queries again (step 02).")
    _, exact = search_nearest(asked, indexes[0].vectors, 1, "distance")
    for index in indexes:
        began = time.perf_counter()
        _, found = search_stored(index, asked, NEIGHBOURS)
        seconds, hit = time.perf_counter() - began, found == exact
        recalls.append(Recall(float(hit[:, :1].any(axis=1).mean()), float(hit.any(axis=1).mean()), len(asked), seconds))
    return recalls


def _open_stored(index: StoredIndex) -> tuple[StoredIndex, faiss.Index]:
    """Open an index for this process, and check that it is one of the vectors."""
    opened = open_index(index.folder, index.probes)
    if opened.ntotal != len(index.vectors):
        raise UserError(
            f"{index.folder} indexes {opened.ntotal:,} vectors, {index.vectors.name} holds {len(index.vectors):,}. Repeat the "
            "command with --force, which builds the index again."
        )
    return index, copy_to_gpu(opened, str(index.folder)) if index.on_gpu else opened


def _search_queries(count: int, opened: tuple[StoredIndex, faiss.Index], queries: NDArray[np.float32], place: Place) -> Found:
    """Return the distances and numbers of the references found for queries [n, d]."""
    size = QUERIES_PER_GPU_BLOCK if opened[0].on_gpu else QUERIES_PER_BLOCK
    blocks = [queries[first : first + size] for first in range(0, len(queries), size)]
    search, parts = partial(_search_block, *opened, count), list[Found]()
    for part in map(search, blocks) if opened[0].on_gpu else map_in_single_threads(search, blocks):  # a GPU serves one thread
        parts.append(part)
        place.advance(len(part[0]))
    return _join(parts)


def _search_block(stored: StoredIndex, index: faiss.Index, count: int, queries: NDArray[np.float32]) -> Found:
    """Search a block of queries."""
    distances, numbers = index.search(queries, max(stored.candidates, 1) * count)
    if not stored.candidates:
        return distances.astype(np.float64), numbers
    candidates = np.sort(numbers, axis=1)  # of equal distances, the lowest number comes first
    return rank_exactly(stored.vectors.rows, queries, candidates, count)


def _join(parts: Sequence[Found]) -> Found:
    distances, numbers = (np.concatenate(part) for part in zip(*parts, strict=True))
    return distances, numbers


def train_index(factory: str, sample: NDArray[np.float32], name: str, on_gpu: bool = False) -> faiss.Index:
    """Train an index on vectors.

    Args:
        factory: A string of Faiss's index factory.
        sample: float32 [n, d].
        name: What the vectors are called in messages.
        on_gpu: Whether they are clustered on this process's GPU.

    Returns:
        The trained index, without vectors.

    Raises:
        UserError: when Faiss rejects `factory`, there are too few vectors for it, or there is no GPU that is asked for.
    """
    index = _make_index(factory, sample.shape[1])
    try:
        with cluster_on_gpu(index) if on_gpu else nullcontext():
            index.train(sample)
    except RuntimeError as error:
        raise UserError(
            f"{name}: {len(sample)} training vectors cannot train the index {factory!r}: {error}. Add training images "
            "or choose a smaller index."
        ) from error
    return index


def _train_on_sample(
    factory: str, training: Training, seed: int, vectors_per_list: int, on_gpu: bool, report: Callable[[str], object]
) -> faiss.Index:
    index = _make_index(factory, training.dimensions)
    lists = faiss.try_extract_index_ivf(index)
    sample = training.sample(max(MIN_TRAINING_VECTORS, vectors_per_list * lists.nlist if lists is not None else 0), seed)
    if not index.is_trained:
        report(f"  training {factory} on {len(sample):,} vectors, which shows no progress")
    return train_index(factory, sample, training.name, on_gpu)


def _make_index(factory: str, dimensions: int) -> faiss.Index:
    if UNSUPPORTED in factory:
        raise UserError(
            f"an index {factory!r} is not supported: Faiss may never finish its graph, and adds vectors to it only once. Take "
            "HNSW32, also a graph, or for example Flat; SQ8; PQ32; IVF1024,SQ8; OPQ32,IVF4096,PQ32."
        )
    try:
        index = faiss.index_factory(dimensions, factory, faiss.METRIC_L2)
        lists = faiss.try_extract_index_ivf(index)
        if lists is not None and not lists.nlist:
            raise RuntimeError("it has no list")
        return index
    except (RuntimeError, TypeError) as error:  # TypeError: bytes that are no text
        raise UserError(
            f"Faiss cannot build an index {factory!r} ({error}). Use an index factory string, "
            "for example Flat; IVF1024,SQ8; OPQ32,IVF4096,PQ32."
        ) from error
