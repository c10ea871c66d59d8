"""Several models' vectors of the same images, side by side, read in blocks: the whole need not fit into memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from submissions.vectors import Vectors, describe_vectors, iterate_vectors

BLOCK = 16_384


@dataclass(frozen=True)
class JoinedVectors:
    """Files of the same images in the same order; `unreadable` where any model could not read the image."""

    paths: tuple[Path, ...]
    ids: list[str]
    dimensions: int
    unreadable: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)

    def blocks(self, block: int = BLOCK) -> Iterator[NDArray[np.float32]]:
        """Rows [≤ block, Σ d] in order."""
        for parts in zip(*(iterate_vectors(path, block) for path in self.paths), strict=True):
            yield np.concatenate(parts, axis=1)

    def rows(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """The chosen rows [m, Σ d], in the order of the file; only one block more than these is in memory."""
        wanted = np.zeros(len(self), bool)
        wanted[chosen] = True
        picked, first = np.empty((int(wanted.sum()), self.dimensions), np.float32), 0
        start = 0
        for block in self.blocks():
            part = block[wanted[start : start + len(block)]]
            picked[first : first + len(part)] = part
            first, start = first + len(part), start + len(block)
        return picked

    def loaded(self) -> Vectors:
        """All rows in memory."""
        return Vectors(self.ids, self.rows(np.arange(len(self))), self.unreadable)

    def sample(self, count: int, seed: int = 0) -> NDArray[np.float32]:
        """At most `count` readable rows, drawn without replacement."""
        readable = np.flatnonzero(~self.unreadable)
        if len(readable) > count:
            readable = np.sort(np.random.default_rng(seed).choice(readable, count, replace=False))
        return self.rows(readable)


def join_files(paths: list[Path]) -> JoinedVectors:
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
    return JoinedVectors(tuple(paths), shapes[0].ids, sum(shape.dimensions for shape in shapes), unreadable)
