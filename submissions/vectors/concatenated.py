"""Several models' vectors of the same images, concatenated and read in blocks: the whole need not fit into memory."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from data.errors import UserError
from submissions.vectors.files import describe_vectors, iterate_vectors

BLOCK = 16_384


@dataclass(frozen=True)
class ConcatenatedVectors:
    """Vectors files of the same images in the same order, one for each model.

    Attributes:
        paths: of the files, in the order in which their vectors are concatenated.
        ids: of the images, n of them.
        parts: d of each file; `dimensions` is their sum.
        unreadable: bool [n], where any model could not read the image.
        weights: what each file's vectors are multiplied by.
    """

    paths: tuple[Path, ...]
    ids: list[str]
    parts: tuple[int, ...]
    unreadable: NDArray[np.bool_]
    weights: tuple[float, ...]

    @property
    def dimensions(self) -> int:
        """Of the joined vectors."""
        return sum(self.parts)

    def weighted(self, weights: tuple[float, ...]) -> "ConcatenatedVectors":
        """The same vectors with other weights, one for each file."""
        return replace(self, weights=weights)

    def weight_of_dimensions(self) -> NDArray[np.float32]:
        """The weights [Σ d] that the joined vectors are multiplied by."""
        return np.repeat(np.array(self.weights, np.float32), self.parts)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def name(self) -> str:
        """The files' name for messages."""
        return str(self.paths[0]) + (f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else "")

    def blocks(self, block: int = BLOCK) -> Iterator[NDArray[np.float32]]:
        """All rows, in blocks [≤ block, Σ d] float32 in order."""
        weighting, equal = self.weight_of_dimensions(), set(self.weights) == {1.0}
        with tqdm(total=len(self), desc=f"reading {self.paths[0].stem}", unit="vector", leave=False, delay=1) as bar:
            for parts in zip(*(iterate_vectors(path, block) for path in self.paths), strict=True):
                joined = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
                yield joined if equal else joined * weighting
                bar.update(len(parts[0]))

    def blocks_of(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
        """The chosen rows, in blocks [1 … BLOCK, Σ d] float32 in the order of the files."""
        wanted, start = np.zeros(len(self), bool), 0
        wanted[rows] = True
        for block in self.blocks():
            part = block[wanted[start : start + len(block)]]
            if len(part):
                yield part
            start += len(block)

    def rows(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """The chosen rows [m, Σ d] float32, in the order of the files; only one block more is in memory."""
        picked, first = np.empty((len(chosen), self.dimensions), np.float32), 0
        for block in self.blocks_of(chosen):
            picked[first : first + len(block)] = block
            first += len(block)
        return picked

    def rows_of(self, ids: Collection[str]) -> NDArray[np.int64]:
        """The rows of `ids`.

        Raises:
            UserError: an id has no vector; the message names the files and the first such id.
        """
        where = {image_id: row for row, image_id in enumerate(self.ids)}
        missing = [image_id for image_id in ids if image_id not in where]
        if missing:
            raise UserError(
                f"{self.name}: {len(missing)} images have no vector, the first is {missing[0]!r}. Embed them (step 02)."
            )
        return np.array([where[image_id] for image_id in ids], dtype=np.int64)

    def sample(self, count: int, seed: int = 0, among: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """At most `count` readable rows [m, Σ d], drawn without replacement from all rows or from `among`."""
        rows = np.arange(len(self)) if among is None else among
        rows = rows[~self.unreadable[rows]]
        if len(rows) > count:
            rows = np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))
        return self.rows(rows)


def open_concatenated(paths: list[Path]) -> ConcatenatedVectors:
    """Open vectors files of the same images; only ids and marks are read.

    Vectors of length zero that are not marked unreadable are reported when they are read.

    Raises:
        UserError: a file is broken, or the files hold different images; the message names the first difference.
    """
    shapes = [describe_vectors(path) for path in paths]
    for path, shape in zip(paths[1:], shapes[1:], strict=True):
        if shape.ids != shapes[0].ids:
            different = next((pair for pair in zip(shapes[0].ids, shape.ids, strict=False) if pair[0] != pair[1]), None)
            where = f", first difference {different[0]!r} / {different[1]!r}" if different else ""
            raise UserError(
                f"{paths[0]} ({len(shapes[0].ids)} images) and {path} ({len(shape.ids)} images) hold different images{where}. "
                "Embed both models again (step 02 --force)."
            )
    unreadable = np.logical_or.reduce([shape.unreadable for shape in shapes])
    parts = tuple(shape.dimensions for shape in shapes)
    return ConcatenatedVectors(tuple(paths), shapes[0].ids, parts, unreadable, (1.0,) * len(paths))
