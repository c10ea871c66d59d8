"""Approximate search in vectors that lie in many files, of which only a few are touched at a time.

Each vectors file (a shard) is encoded once, into a file of its own; the codes of all shards are merged into inverted lists on
disk. A search reads candidates from the lists and computes their distances again from the stored vectors (a second look), so that
distances are exact and only neighbours that are not among the candidates can be missed. Neither vectors nor codes need fit into
memory, a stopped build continues with the shards that lack codes, and a shard that is added is the only one to be encoded.

No command uses this yet: `benchmarks/ten_million.py` measures it, and match.py searches its index with `submissions/index/`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import faiss
import h5py
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from data.errors import UserError
from data.files import whole_file
from submissions.search.approximate import INDEX_FILE, merge_parts, open_index, train_index
from submissions.vectors.files import describe_vectors, iterate_vectors

QUANTIZER_FILE = "quantizer.faiss"
CANDIDATES_PER_NEIGHBOUR = 50  # candidates whose exact distances are computed, for each neighbour asked for


@dataclass(frozen=True)
class StoredVectors:
    """The vectors of many files, numbered through, mapped from disk.

    Attributes:
        paths: The vectors files, on this machine.
        firsts: int64 [files + 1], number of each file's first vector, and how many there are in all.
        unreadable: bool [n], True for images that could not be decoded; they match nothing.
        mapped: The vectors of each file, float32 or float16 [m, d].
    """

    paths: Sequence[Path]
    firsts: NDArray[np.int64]
    unreadable: NDArray[np.bool_]
    mapped: Sequence[NDArray[np.generic]]

    @property
    def dimensions(self) -> int:
        """Dimensions d of the vectors."""
        return int(self.mapped[0].shape[1])

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors float32 [n, d] with these numbers [n]."""
        vectors = np.empty((len(numbers), self.dimensions), np.float32)
        owners = np.searchsorted(self.firsts, numbers, side="right") - 1
        for owner in np.unique(owners):
            chosen = np.flatnonzero(owners == owner)
            vectors[chosen] = self.mapped[owner][numbers[chosen] - self.firsts[owner]]
        return vectors


@dataclass(frozen=True)
class ShardedIndex:
    """An index of shards, as `submissions.index.search.find_nearest` searches it.

    Attributes:
        lists: The merged Faiss index, whose ids are numbers of vectors.
        vectors: The stored vectors.
        candidates: Candidates per neighbour asked for.
    """

    lists: faiss.Index
    vectors: StoredVectors
    candidates: int = CANDIDATES_PER_NEIGHBOUR

    @property
    def ntotal(self) -> int:
        """Number of vectors of readable images."""
        return int(self.lists.ntotal)

    def search(self, x: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return approximate squared distances and numbers, both [n, `candidates` · k], of the candidates for queries [n, d]."""
        distances, numbers = self.lists.search(x, min(self.candidates * k, self.ntotal))
        return distances, numbers

    def reconstruct_batch(self, key: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the stored vectors float32 [m, d] with these numbers [m]."""
        return self.vectors.rows(key)


def open_stored_vectors(paths: Sequence[Path]) -> StoredVectors:
    """Map the vectors of many files; their ids are checked and not kept.

    Raises:
        UserError: when a file is damaged, or its dimensions differ from those of the first.
    """
    counts, flags, mapped = [], [], []
    for path in paths:
        shape = describe_vectors(path)
        counts.append(len(shape.ids))
        flags.append(shape.unreadable)
        with h5py.File(path, "r") as file:
            stored = file["vectors"]
            place, form, size = stored.id.get_offset(), stored.dtype, stored.shape
        if place is None:
            raise UserError(f"{path}: its vectors are stored in pieces. Write them again with this project (step 02).")
        mapped.append(np.memmap(path, form, "r", place, size))
        if size[1] != mapped[0].shape[1]:
            raise UserError(
                f"{path} has {size[1]} dimensions, {paths[0]} has {mapped[0].shape[1]}: they were not made by the same model. "
                "Embed the images of one of them again (step 02)."
            )
    return StoredVectors(tuple(paths), np.cumsum([0, *counts]), np.concatenate(flags), mapped)


def build_sharded_index(factory: str, vectors: StoredVectors, folder: Path, sample: int, seed: int = 0) -> None:
    """Train a quantiser, encode every shard that has no codes yet, and merge the codes into lists on disk.

    Args:
        factory: A string of Faiss's index factory with plain inverted lists, such as "IVF4096,PQ64".
        vectors: The shards.
        folder: Existing folder that the index and the shards' codes are kept in. A quantiser that lies there is used again.
        sample: Vectors that the quantiser is trained on, at most.
        seed: Seed of the sample.

    Raises:
        UserError: when Faiss rejects `factory`, the vectors cannot train it or are damaged, or the disk has too little space.
    """
    quantizer = folder / QUANTIZER_FILE
    if not quantizer.is_file():
        readable = np.flatnonzero(~vectors.unreadable)
        chosen = np.sort(np.random.default_rng(seed).choice(readable, min(sample, len(readable)), replace=False))
        trained = train_index(factory, vectors.rows(chosen), str(vectors.paths[0].parent))
        with whole_file(quantizer) as temporary:
            faiss.write_index(trained, str(temporary))
    parts = [
        _encode_shard(quantizer, vectors, number, folder) for number in tqdm(range(len(vectors.paths)), "codes", leave=False)
    ]
    index = faiss.read_index(str(quantizer))
    merge_parts(index, parts, folder, int((~vectors.unreadable).sum()))
    with whole_file(folder / INDEX_FILE) as temporary:
        faiss.write_index(index, str(temporary))


def open_sharded_index(
    folder: Path, vectors: StoredVectors, probes: int | None = None, candidates: int = CANDIDATES_PER_NEIGHBOUR
) -> ShardedIndex:
    """Open an index that `build_sharded_index` wrote.

    Args:
        folder: Its folder.
        vectors: The shards that it was built from.
        probes: Inverted lists searched for each query; None for the square root of their number.
        candidates: Candidates per neighbour asked for.

    Raises:
        UserError: when the index is missing or damaged, or was built from other shards.
    """
    lists = open_index(folder, probes)
    if lists.ntotal != int((~vectors.unreadable).sum()):
        raise UserError(
            f"{folder} indexes {lists.ntotal:,} vectors, the shards hold {(~vectors.unreadable).sum():,}: build it again."
        )
    return ShardedIndex(lists, vectors, candidates)


def _encode_shard(quantizer: Path, vectors: StoredVectors, number: int, folder: Path) -> Path:
    """Return the file of a shard's codes, written if it is missing; its name tells what it was made from."""
    source, first = vectors.paths[number], int(vectors.firsts[number])
    state, trained = source.stat(), quantizer.stat()
    made_from = f"{source.name} {state.st_size} {state.st_mtime_ns} {first} {trained.st_size} {trained.st_mtime_ns}"
    path = folder / f"codes-{number:06d}-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}.faiss"
    if not path.is_file():
        for old in folder.glob(f"codes-{number:06d}-*.faiss"):
            old.unlink()
        index = faiss.read_index(str(quantizer))
        for block in iterate_vectors(source):
            rows = np.flatnonzero(~vectors.unreadable[first : first + len(block)])
            index.add_with_ids(np.ascontiguousarray(block[rows]), first + rows)
            first += len(block)
        with whole_file(path) as temporary:
            faiss.write_index(index, str(temporary))
    return path
