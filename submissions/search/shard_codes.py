"""Inverted lists on disk, merged from the codes of shards, each of which is encoded once, wherever that is.

A shard's codes are a Faiss index in a file of its own, written whole: a stopped build continues with the shards that lack
one, and shards that are added are the only ones to be encoded. Codes depend neither on the number of threads nor on the process.
A file's name says what it was made from and ends with a digest of its bytes: damaged codes are made again.
"""

import ctypes
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import faiss
import numpy as np
from faiss.contrib.ondisk import merge_ondisk

from image_copies.data.errors import UserError
from image_copies.data.shards import Place, ShardWork, hold, run_shards
from image_copies.data.threads import map_in_threads
from image_copies.submissions.search.index_files import is_intact, require_index, write_index
from image_copies.submissions.vectors.rows import RowsInFile
from image_copies.submissions.vectors.stored import StoredVectors

LISTS_FILE = "references.ivfdata"
VECTORS_PER_SHARD = 50_000
VECTORS_PER_BLOCK = 4096  # encoded by one thread
Item = TypeVar("Item")
Result = TypeVar("Result")


def has_plain_lists(index: faiss.Index) -> bool:
    """Whether an index holds only inverted lists, after at most a linear transform: merging would lose anything else."""
    inner = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
    if not isinstance(inner, faiss.IndexIVF) or isinstance(inner, faiss.IndexIVFPQR) or inner.invlists is None:
        return False
    return type(faiss.downcast_InvertedLists(inner.invlists)) is faiss.ArrayInvertedLists


def encode_shards(quantizer: Path, vectors: StoredVectors, folder: Path, report: Callable[[str], object]) -> list[Path]:
    """Return the files of all shards' codes, in order; missing and damaged ones are written, here or on the engine in use.

    Args:
        quantizer: File of a trained Faiss index with plain inverted lists, without vectors; its name ends with its digest.
        vectors: What to encode; the codes have its numbers.
        folder: Existing folder of the codes.
        report: Called with a line about damaged codes.

    Raises:
        UserError: when vectors are damaged, or the disk is full.
    """
    shards = [
        _Uncoded(rows, folder.absolute(), _name_codes(number, rows, quantizer.stem))
        for number, rows in enumerate(vectors.divide(VECTORS_PER_SHARD))
    ]
    found = [sorted(shard.folder.glob(f"{shard.name}-*.faiss")) for shard in shards]
    codes = [next(filter(is_intact, files), None) for files in found]
    damaged = [files[0] for files, intact in zip(found, codes, strict=True) if files and intact is None]
    if damaged:
        report(f"  {len(damaged)} of {len(shards)} files of codes are damaged and made again, the first is {damaged[0]}")
    lacking = [number for number, intact in enumerate(codes) if intact is None]
    work = ShardWork(
        name="encoding vectors",
        unit="vector",
        open=partial(hold, quantizer.absolute()),
        work=_encode_shard,
        size=_count_vectors,
        inputs=(quantizer.absolute(),),
        folder=folder.absolute(),
    )
    left = [shards[number] for number in lacking]
    encoded = run_shards(work, left, len(vectors), len(vectors) - sum(map(_count_vectors, left)))
    for number, path in zip(lacking, encoded, strict=True):
        codes[number] = path
    return [path for path in codes if path is not None]


def merge_codes(index: faiss.Index, codes: Sequence[Path], folder: Path, count: int) -> None:
    """Merge the inverted lists of several indexes on disk and make them the lists of the empty `index`.

    Args:
        index: Trained as the others were, without vectors, with plain inverted lists.
        codes: Files of indexes whose ids differ.
        folder: Where the lists are written to.
        count: Number of vectors in all of them.

    Raises:
        UserError: when the disk has too little space, or codes are damaged.
    """
    row_bytes = int(faiss.extract_index_ivf(index).code_size) + 8  # an int64 id for each code
    needed, free = count * row_bytes, shutil.disk_usage(folder).free
    if free < needed:  # the lists are memory-mapped: a write to a full disk would kill the process
        problem = f"the index needs {needed / 2**20:.0f} MiB, the disk has {free / 2**20:.0f} MiB"
        raise UserError(f"{folder.parent}: {problem}. Free some space and repeat the command.")
    try:
        with silence_faiss():
            merge_ondisk(index, [str(path) for path in codes], str(folder / LISTS_FILE))
        if index.ntotal != count:
            raise RuntimeError(f"they are of {index.ntotal:,} vectors, not {count:,}")
    except RuntimeError as error:
        raise UserError(
            f"{codes[0].parent}: the codes in it cannot be merged ({error}). Delete that folder and repeat the command."
        ) from error
    lists: Any = faiss.downcast_InvertedLists(faiss.extract_index_ivf(index).invlists)  # type: ignore[arg-type]  # there are some
    lists.filename = LISTS_FILE  # beside the index, whatever the folder is called: the same index has the same bytes


def map_in_single_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Return the result for every item, in order; each is computed by one thread, as many at once as Faiss has threads.

    The last bits of a product may depend on how many threads compute it.
    """
    return map_in_threads(work, items, faiss.omp_get_max_threads(), partial(faiss.omp_set_num_threads, 1))


@contextmanager
def silence_faiss() -> Iterator[None]:
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


@dataclass(frozen=True)
class _Uncoded:
    """A shard to encode.

    Attributes:
        rows: Its vectors.
        folder: Where its file is written to.
        name: What its name begins with, before the digest of its bytes.
    """

    rows: RowsInFile
    folder: Path
    name: str


def _name_codes(number: int, rows: RowsInFile, trained: str) -> str:
    """Name a shard's codes by its number and what they are made from."""
    source = rows.path.stat()
    made_from = f"{rows.path.name} {source.st_size} {source.st_mtime_ns} {rows.start} {rows.stop} {rows.first} {trained}"
    return f"codes-{number:06d}-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}"


def _count_vectors(shard: _Uncoded) -> int:
    return len(shard.rows)


def _encode_shard(quantizer: Path, shard: _Uncoded, place: Place) -> Path:
    """Write the codes of a shard, remove those that the same shard had before, and return the file."""
    index: Any = faiss.clone_index(require_index(quantizer))
    lists, first = faiss.extract_index_ivf(index), shard.rows.first
    for codes in map_in_single_threads(index.sa_encode, shard.rows.blocks(VECTORS_PER_BLOCK)):
        lists.add_sa_codes(codes, np.arange(first, first + len(codes)))
        first += len(codes)
        place.advance(len(codes))
    index.ntotal = lists.ntotal
    written = shard.folder / f"{shard.name}-{write_index(index, shard.folder, shard.name)}.faiss"
    for old in shard.folder.glob(f"{shard.name.rpartition('-')[0]}-*.faiss"):
        if old != written:
            old.unlink(missing_ok=True)
    return written
