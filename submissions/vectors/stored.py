"""The vectors of a file with their ids, read in blocks when they are searched, so that they need not fit into memory."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.submissions.vectors.files import describe_vectors
from image_copies.submissions.vectors.rows import DividedRows, FileRows


@dataclass(frozen=True)
class StoredVectors:
    """What `Vectors` are in memory."""

    ids: list[str]  # n of them
    dimensions: int
    unreadable: NDArray[np.bool_]  # [n], True for images that could not be decoded: they match nothing
    rows: DividedRows  # of readable images, in the order of the ids

    def __len__(self) -> int:
        return len(self.ids)

    def readable(self) -> DividedRows:
        """Return the vectors of readable images only."""
        return self.rows


def open_vectors(path: Path) -> StoredVectors:
    """Open a vectors file; only ids and flags are read here.

    Invalid vectors are reported when they are read (see `iterate_vectors`).

    Raises:
        UserError: when the file is missing, or is not a vectors file.
    """
    shape = describe_vectors(path)
    return StoredVectors(shape.ids, shape.dimensions, shape.unreadable, FileRows(path, shape.unreadable))
