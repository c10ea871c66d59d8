"""Several models' vectors of the same images, side by side, read in blocks: the whole need not fit into memory."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from data.errors import UserError
from submissions.vectors.files import describe_vectors, iterate_vectors

BLOCK = 16_384


@dataclass(frozen=True)
class ConcatenatedVectors:
    """Files of the same images in the same order; `unreadable` where any model could not read the image."""

    paths: tuple[Path, ...]
    ids: list[str]
    dimensions: int
    unreadable: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def name(self) -> str:
        """For messages."""
        return str(self.paths[0]) + (f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else "")

    def blocks(self, block: int = BLOCK) -> Iterator[NDArray[np.float32]]:
        """Rows [≤ block, Σ d] in order."""
        with tqdm(total=len(self), desc=f"reading {self.paths[0].stem}", unit="vector", leave=False, delay=1) as bar:
            for parts in zip(*(iterate_vectors(path, block) for path in self.paths), strict=True):
                yield parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
                bar.update(len(parts[0]))

    def blocks_of(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
        """The chosen rows [1 … block, Σ d], in the order of the file."""
        wanted, start = np.zeros(len(self), bool), 0
        wanted[rows] = True
        for block in self.blocks():
            part = block[wanted[start : start + len(block)]]
            if len(part):
                yield part
            start += len(block)

    def rows(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """The chosen rows [m, Σ d], in the order of the file; only one block more than these is in memory."""
        picked, first = np.empty((len(chosen), self.dimensions), np.float32), 0
        for block in self.blocks_of(chosen):
            picked[first : first + len(block)] = block
            first += len(block)
        return picked

    def rows_of(self, ids: Collection[str]) -> NDArray[np.int64]:
        """Where these ids stand; UserError names the files and the first id that has no vector."""
        where = {image_id: row for row, image_id in enumerate(self.ids)}
        missing = [image_id for image_id in ids if image_id not in where]
        if missing:
            raise UserError(
                f"{self.name}: {len(missing)} images have no vector, the first is {missing[0]!r}. Embed them (step 02)."
            )
        return np.array([where[image_id] for image_id in ids], dtype=np.int64)

    def sample(self, count: int, seed: int = 0, among: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """At most `count` readable rows, drawn without replacement; `among` these rows only."""
        rows = np.arange(len(self)) if among is None else among
        rows = rows[~self.unreadable[rows]]
        if len(rows) > count:
            rows = np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))
        return self.rows(rows)


def open_concatenated(paths: list[Path]) -> ConcatenatedVectors:
    """Check that the files hold vectors of the same images. UserError names the files and numbers that differ, and vectors of
    length zero that are not marked unreadable come out as they are: step 02 marks them."""
    shapes = [describe_vectors(path) for path in paths]
    for path, shape in zip(paths[1:], shapes[1:], strict=True):
        if shape.ids != shapes[0].ids:
            different = next((pair for pair in zip(shapes[0].ids, shape.ids, strict=False) if pair[0] != pair[1]), None)
            told = f", first difference {different[0]!r} / {different[1]!r}" if different else ""
            raise UserError(
                f"{paths[0]} ({len(shapes[0].ids)} images) and {path} ({len(shape.ids)} images) hold different images{told}. "
                "Embed both models again (step 02 --force)."
            )
    unreadable = np.logical_or.reduce([shape.unreadable for shape in shapes])
    return ConcatenatedVectors(tuple(paths), shapes[0].ids, sum(shape.dimensions for shape in shapes), unreadable)
