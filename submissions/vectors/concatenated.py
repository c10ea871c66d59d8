"""Several models' vectors of the same images, concatenated and read in blocks, so that they need not fit into memory."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from image_copies.data.arrays import Bools, Float32s, Int64s
from image_copies.data.errors import UserError

from .files import iterate_vectors, open_vectors

ROWS_PER_BLOCK = 16_384


@dataclass(frozen=True)
class ConcatenatedVectors:
    """Vectors files of the same images in the same order, one for each model."""

    paths: tuple[Path, ...]  # in the order in which their vectors are concatenated
    ids: list[str]  # n of them
    parts: tuple[int, ...]  # dimensions d of each file
    unreadable: Bools  # [n], True where at least one model could not read the image
    weights: tuple[float, ...]  # factor of each file's vectors

    @property
    def dimensions(self) -> int:
        """Dimensions of the concatenated vectors, Σ d."""
        return sum(self.parts)

    def weighted(self, weights: tuple[float, ...]) -> "ConcatenatedVectors":
        """Return the same vectors with other weights, one for each file."""
        return replace(self, weights=weights)

    def weight_of_dimensions(self) -> Float32s:
        """Return the weights [Σ d] that the concatenated vectors are multiplied by."""
        return np.repeat(np.array(self.weights, np.float32), self.parts)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def name(self) -> str:
        """How messages refer to the files."""
        return str(self.paths[0]) + (f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else "")

    def blocks(
        self, block: int = ROWS_PER_BLOCK, *, first: int = 0, last: int | None = None
    ) -> Iterator[Float32s]:
        """Yield rows in order, in blocks [≤ block, Σ d] float32, from row `first` up to the one before `last`, or to the end.

        Raises:
            UserError: when a file is damaged or holds invalid vectors (see `iterate_vectors`).
        """
        weighting = self.weight_of_dimensions()
        equal = set(self.weights) == {1.0}
        count = (len(self) if last is None else last) - first
        with tqdm(
            total=count, desc=f"reading {self.paths[0].stem}", unit="vector", leave=False, delay=1
        ) as bar:
            for parts in zip(
                *(iterate_vectors(path, block, first=first, last=last) for path in self.paths), strict=True
            ):
                joined = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
                yield joined if equal else joined * weighting
                bar.update(len(parts[0]))

    def blocks_of(self, rows: Int64s) -> Iterator[Float32s]:
        """Yield the chosen rows in the order of the files, in blocks [1 … ROWS_PER_BLOCK, Σ d] float32.

        Raises:
            UserError: when a file is damaged or holds invalid vectors (see `iterate_vectors`).
        """
        wanted, start = np.zeros(len(self), bool), 0
        wanted[rows] = True
        for block in self.blocks():
            part = block[wanted[start : start + len(block)]]
            if len(part):
                yield part
            start += len(block)

    def rows_of(self, ids: Collection[str]) -> Int64s:
        """Return the row numbers of `ids`, int64 [len(ids)].

        Raises:
            UserError: when an id has no vector; the message names the files and the first such id.
        """
        where = {image_id: row for row, image_id in enumerate(self.ids)}
        missing = [image_id for image_id in ids if image_id not in where]
        if missing:
            raise UserError(
                f"{self.name}: {len(missing)} images have no vector, the first is {missing[0]!r}. Embed them (step 02)."
            )
        return np.array([where[image_id] for image_id in ids], dtype=np.int64)

    def choose_rows(self, count: int, seed: int = 0, among: Int64s | None = None) -> Int64s:
        """Draw the row numbers of at most `count` readable images, of all or of `among` [k]: int64 [m], ascending."""
        rows = np.arange(len(self)) if among is None else among
        rows = rows[~self.unreadable[rows]]
        if len(rows) > count:
            rows = np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))
        return rows


def open_concatenated(paths: list[Path]) -> ConcatenatedVectors:
    """Open vectors files of the same images; only ids and flags are read here.

    Invalid vectors, such as zero vectors of images that are not flagged unreadable, are reported when the blocks are read.

    Raises:
        UserError: when a file is damaged, or the files hold different images; the message names the first difference.
    """
    shapes = [open_vectors(path) for path in paths]
    for path, shape in zip(paths[1:], shapes[1:], strict=True):
        if shape.ids != shapes[0].ids:
            different = next(
                (pair for pair in zip(shapes[0].ids, shape.ids, strict=False) if pair[0] != pair[1]), None
            )
            where = f", first difference {different[0]!r} / {different[1]!r}" if different else ""
            raise UserError(
                f"{paths[0]} ({len(shapes[0].ids)} images) and {path} ({len(shape.ids)} images) hold different images{where}. "
                "Embed both models again (step 02 --force)."
            )
    unreadable = np.logical_or.reduce([shape.unreadable for shape in shapes])
    parts = tuple(shape.dimensions for shape in shapes)
    return ConcatenatedVectors(tuple(paths), shapes[0].ids, parts, unreadable, (1.0,) * len(paths))
