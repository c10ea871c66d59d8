"""Approximate search in collections larger than memory: any Faiss index, inverted lists on disk, recall against exact search."""

import ctypes
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from faiss.contrib.exhaustive_search import knn_ground_truth
from faiss.contrib.ondisk import merge_ondisk
from numpy.typing import NDArray

from data.errors import UserError
from submissions.vectors.concatenated import ConcatenatedVectors

INDEX_FILE, LISTS_FILE = "references.faiss", "references.ivfdata"
MIN_TRAINING_VECTORS = 65_536  # the most that Faiss trains a product quantiser on: 256 for each of its 256 centroids
VECTORS_PER_LIST = 40  # training vectors for each inverted list; Faiss warns below 39 for each k-means centroid
BYTES_PER_PART = 2**26  # codes that are collected in memory before they are written to disk


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
    factory: str, training: ConcatenatedVectors, references: ConcatenatedVectors, folder: Path, seed: int = 0
) -> None:
    """Train an index on a sample of the training vectors, add the readable references block by block and write it to `folder`.

    Plain inverted lists are written to disk part by part; an index without them, or with lists in another form (fast scan,
    refinement), is built in memory.

    Args:
        factory: A string of Faiss's index factory, such as "IVF1024,SQ8".
        training: Vectors that the index is trained on.
        references: Vectors to search in; the index numbers the readable ones from 0.
        folder: Existing folder that the index is written to.
        seed: Seed of the training sample.

    Raises:
        UserError: when Faiss rejects `factory`, there are too few training vectors for it, no reference is readable, or the disk
            has too little space.
    """
    readable = np.flatnonzero(~references.unreadable)
    if not len(readable):
        raise UserError(f"{references.name} holds no vector of a readable image. Embed the references again (step 02).")
    index = _train_on_sample(factory, training, seed)
    if _has_plain_lists(index):
        parts = _write_parts(index, references, readable, folder)
        merge_parts(index, parts, folder, len(readable))
        for part in parts:
            part.unlink()
    else:
        try:
            for block in references.blocks_of(readable):
                index.add(block)
        except RuntimeError as error:
            raise UserError(
                f"the index {factory!r} cannot number references by their row: {error}. Remove IDMap from it."
            ) from error
    faiss.write_index(index, str(folder / INDEX_FILE))


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
        with _quiet():
            index = faiss.read_index(str(path), faiss.IO_FLAG_ONDISK_SAME_DIR | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError as error:
        raise UserError(f"{path} cannot be read as a Faiss index ({error}). Delete {folder} and build it again.") from error
    lists = faiss.try_extract_index_ivf(index)
    if lists is not None:
        lists.nprobe = min(probes or math.isqrt(lists.nlist), lists.nlist)
    elif probes is not None:
        raise UserError(f"{path} has no inverted lists, which --nprobe counts: omit --nprobe, or build an IVF index.")
    return index


def measure_recall(
    index: faiss.Index, queries: ConcatenatedVectors, references: ConcatenatedVectors, sample: int = 1000, seed: int = 0
) -> Recall:
    """Measure the recall of an index against exact search, on a sample of the queries.

    Args:
        index: The index to measure.
        queries: Vectors to search with.
        references: The vectors that the index was built from; read block by block.
        sample: Number of queries, at most.
        seed: Seed of the sample.
    """
    asked = queries.sample(sample, seed)
    began = time.perf_counter()
    _, found = index.search(asked, 10)
    seconds = time.perf_counter() - began
    _, exact = knn_ground_truth(asked, references.blocks_of(np.flatnonzero(~references.unreadable)), 1)
    hit = found == exact
    return Recall(float(hit[:, :1].any(axis=1).mean()), float(hit.any(axis=1).mean()), len(asked), seconds)


def train_index(factory: str, sample: NDArray[np.float32], name: str) -> faiss.Index:
    """Train an index on vectors.

    Args:
        factory: A string of Faiss's index factory.
        sample: float32 [n, d].
        name: What the vectors are called in messages.

    Returns:
        The trained index, without vectors.

    Raises:
        UserError: when Faiss rejects `factory`, or there are too few vectors for it.
    """
    index = _make_index(factory, sample.shape[1])
    try:
        index.train(sample)
    except RuntimeError as error:
        raise UserError(
            f"{name}: {len(sample)} training vectors cannot train the index {factory!r}: {error}. Add training images "
            "or choose a smaller index."
        ) from error
    return index


def _train_on_sample(factory: str, training: ConcatenatedVectors, seed: int) -> faiss.Index:
    lists = faiss.try_extract_index_ivf(_make_index(factory, training.dimensions))
    sample = training.sample(max(MIN_TRAINING_VECTORS, VECTORS_PER_LIST * lists.nlist if lists is not None else 0), seed)
    return train_index(factory, sample, training.name)


def _make_index(factory: str, dimensions: int) -> faiss.Index:
    try:
        return faiss.index_factory(dimensions, factory, faiss.METRIC_L2)
    except RuntimeError as error:
        raise UserError(
            f"Faiss cannot build an index {factory!r} ({error}). Use an index factory string, "
            "for example Flat; IVF1024,SQ8; OPQ32,IVF4096,PQ32."
        ) from error


def _has_plain_lists(index: faiss.Index) -> bool:
    """Whether the index holds only inverted lists, after at most a linear transform: merging would lose anything else."""
    inner = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
    if not isinstance(inner, faiss.IndexIVF) or isinstance(inner, faiss.IndexIVFPQR) or inner.invlists is None:
        return False
    return type(faiss.downcast_InvertedLists(inner.invlists)) is faiss.ArrayInvertedLists


def _write_parts(index: faiss.Index, references: ConcatenatedVectors, rows: NDArray[np.int64], folder: Path) -> list[Path]:
    """Write the rows as indexes of about BYTES_PER_PART each; leaves `index` empty."""
    parts: list[Path] = []
    first = 0
    for block in references.blocks_of(rows):
        index.add_with_ids(block, np.arange(first, first + len(block)))
        first += len(block)
        if index.ntotal * _bytes_a_row(index) >= BYTES_PER_PART or first == len(rows):
            parts.append(folder / f"part-{len(parts)}.faiss")
            faiss.write_index(index, str(parts[-1]))
            index.reset()
    return parts


def _bytes_a_row(index: faiss.Index) -> int:
    return int(faiss.extract_index_ivf(index).code_size) + 8  # an int64 id for each code


def merge_parts(index: faiss.Index, parts: list[Path], folder: Path, count: int) -> None:
    """Merge the inverted lists of several indexes on disk and make them the lists of the empty `index`.

    Args:
        index: Trained as the parts were, without vectors, with plain inverted lists.
        parts: Files of indexes whose ids differ.
        folder: Where the lists are written to.
        count: Number of vectors in all parts.

    Raises:
        UserError: when the disk has too little space.
    """
    needed, free = count * _bytes_a_row(index), shutil.disk_usage(folder).free
    if free < needed:  # the lists are memory-mapped: a write to a full disk would kill the process
        problem = f"the index needs {needed / 2**20:.0f} MiB, the disk has {free / 2**20:.0f} MiB"
        raise UserError(f"{folder.parent}: {problem}. Free some space and repeat the command.")
    with _quiet():
        merge_ondisk(index, [str(part) for part in parts], str(folder / LISTS_FILE))
    lists: Any = faiss.downcast_InvertedLists(faiss.extract_index_ivf(index).invlists)  # type: ignore[arg-type]  # there are some
    lists.filename = LISTS_FILE  # beside the index, whatever the folder is called: the same index has the same bytes


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what Faiss prints to stdout about every file that it maps."""
    flush = ctypes.CDLL(None).fflush
    flush(None)
    terminal = os.dup(1)
    try:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        flush(None)
        os.dup2(terminal, 1)
        os.close(terminal)
