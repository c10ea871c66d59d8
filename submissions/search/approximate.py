"""Search in collections larger than memory: any Faiss index factory, inverted lists on disk, recall against exact search."""

import ctypes
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from faiss.contrib.exhaustive_search import knn_ground_truth
from faiss.contrib.ondisk import merge_ondisk
from numpy.typing import NDArray

from data.errors import UserError
from submissions.vectors.concatenated import ConcatenatedVectors

INDEX, LISTS = "references.faiss", "references.ivfdata"
MIN_TRAINING_VECTORS = 65_536  # as many as product quantisers look at
VECTORS_PER_LIST = 40  # as many training vectors as k-means wants for each list
PART_BYTES = 2**26  # bytes of codes that are gathered in memory before they go to disk


@dataclass(frozen=True)
class Recall:
    """What an index finds of the exact nearest references.

    Attributes:
        at_1: share 0…1 of the exact nearest references that the index ranks first.
        at_10: share 0…1 of the exact ten nearest references among the index's own first ten.
        queries: how many were searched.
        seconds: of the index's search.
    """

    at_1: float
    at_10: float
    queries: int
    seconds: float


def build_index(
    factory: str, training: ConcatenatedVectors, references: ConcatenatedVectors, folder: Path, seed: int = 0
) -> None:
    """Train an index on a sample of the training vectors, add the readable references block by block, write it to `folder`.

    Inverted lists go to disk; what has none, or keeps them in another form (fast scan, refinement), is held in memory.

    Args:
        factory: a string of Faiss's index factory.
        training: what the index is trained on.
        references: what is searched; each keeps the number of its row among the readable ones.
        folder: where the index goes; must exist.
        seed: of the sample.

    Raises:
        UserError: Faiss refuses the string, there are too few training vectors for it, no reference is readable, or the disk is
            too small.
    """
    readable = np.flatnonzero(~references.unreadable)
    if not len(readable):
        raise UserError(f"{references.name} holds no vector of a readable image. Embed the references again (step 02).")
    index = _train_index(factory, training, references.dimensions, seed)
    if _has_plain_lists(index):
        _merge(index, _write_parts(index, references, readable, folder), folder, len(readable))
    else:
        try:
            for block in references.blocks_of(readable):
                index.add(block)
        except RuntimeError as error:
            raise UserError(f"the index {factory!r} cannot hold references by their row: {error}. Leave IDMap out.") from error
    faiss.write_index(index, str(folder / INDEX))


def open_index(folder: Path, probes: int | None = None) -> faiss.Index:
    """The index with its lists mapped from disk. probes: lists that a query looks into; without it the root of their number."""
    path = folder / INDEX
    try:
        with _quiet():
            index = faiss.read_index(str(path), faiss.IO_FLAG_ONDISK_SAME_DIR | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError as error:
        raise UserError(f"{path} is not an index that can be read ({error}). Delete {folder} and make it again.") from error
    lists = faiss.try_extract_index_ivf(index)
    if lists is not None:
        lists.nprobe = min(probes or math.isqrt(lists.nlist), lists.nlist)
    elif probes is not None:
        raise UserError(f"{path} has no inverted lists to look into: leave --nprobe out, or build an index of type IVF.")
    return index


def measure_recall(
    index: faiss.Index, queries: ConcatenatedVectors, references: ConcatenatedVectors, sample: int = 1000, seed: int = 0
) -> Recall:
    """Recall of the index against exact search among all references, block by block, on a sample of the queries."""
    asked = queries.sample(sample, seed)
    began = time.perf_counter()
    _, found = index.search(asked, 10)
    seconds = time.perf_counter() - began
    _, exact = knn_ground_truth(asked, references.blocks_of(np.flatnonzero(~references.unreadable)), 1)
    hit = found == exact
    return Recall(float(hit[:, :1].any(axis=1).mean()), float(hit.any(axis=1).mean()), len(asked), seconds)


def _train_index(factory: str, training: ConcatenatedVectors, dimensions: int, seed: int) -> faiss.Index:
    try:
        index = faiss.index_factory(dimensions, factory, faiss.METRIC_L2)
    except RuntimeError as error:
        raise UserError(
            f"Faiss knows no index {factory!r} ({error}). Examples: Flat; IVF1024,SQ8; OPQ32,IVF4096,PQ32."
        ) from error
    lists = faiss.try_extract_index_ivf(index)
    sample = training.sample(max(MIN_TRAINING_VECTORS, VECTORS_PER_LIST * lists.nlist if lists is not None else 0), seed)
    try:
        index.train(sample)
    except RuntimeError as error:
        raise UserError(
            f"{training.name}: {len(sample)} training vectors cannot train the index {factory!r}: {error}. Add training images "
            "or choose a smaller index."
        ) from error
    return index


def _has_plain_lists(index: faiss.Index) -> bool:
    """Whether the index is nothing but lists of codes, after a linear map at most: others lose what they keep besides."""
    inner = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
    if not isinstance(inner, faiss.IndexIVF) or isinstance(inner, faiss.IndexIVFPQR) or inner.invlists is None:
        return False
    return type(faiss.downcast_InvertedLists(inner.invlists)) is faiss.ArrayInvertedLists


def _write_parts(index: faiss.Index, references: ConcatenatedVectors, rows: NDArray[np.int64], folder: Path) -> list[Path]:
    """The rows as indexes of PART_BYTES bytes each; `index` is empty again afterwards."""
    parts: list[Path] = []
    first = 0
    for block in references.blocks_of(rows):
        index.add_with_ids(block, np.arange(first, first + len(block)))
        first += len(block)
        if index.ntotal * _bytes_a_row(index) >= PART_BYTES or first == len(rows):
            parts.append(folder / f"part-{len(parts)}.faiss")
            faiss.write_index(index, str(parts[-1]))
            index.reset()
    return parts


def _bytes_a_row(index: faiss.Index) -> int:
    return int(faiss.extract_index_ivf(index).code_size) + 8  # of the row's number


def _merge(index: faiss.Index, parts: list[Path], folder: Path, count: int) -> None:
    """Join the parts' lists on disk and make them the lists of the empty `index`."""
    needed, free = count * _bytes_a_row(index), shutil.disk_usage(folder).free
    if free < needed:  # the lists are mapped: a full disk would kill the process
        problem = f"the index needs {needed / 2**20:.0f} MiB, the disk has {free / 2**20:.0f} MiB"
        raise UserError(f"{folder.parent}: {problem}. Make room and repeat it.")
    with _quiet():
        merge_ondisk(index, [str(part) for part in parts], str(folder / LISTS))
    for part in parts:
        part.unlink()


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what Faiss prints about every file that it maps."""
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
