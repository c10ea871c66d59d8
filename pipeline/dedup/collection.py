"""All pictures of a run by their numbers, those of one part after those of another; on disk, not in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Collection:
    """The files of vectors.

    Attributes:
        files: A file for each part, those of test sets last.
        starts: Number of the first picture of each file, and of all pictures, int64 [files + 1].
        inputs: How many pictures belong to the inputs; the others to test sets.
    """

    files: Sequence[Path]
    starts: Numbers
    inputs: int

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def test_sets_begin(self) -> int | None:
        """Number of the first picture of a test set; None where there are no test sets."""
        return self.inputs if self.inputs < len(self) else None

    def read(self, file: int, columns: Sequence[str]) -> Any:
        """Return columns of a file's rows, as a `pyarrow.Table`."""
        from pyarrow import parquet  # imported here: an extra

        return parquet.read_table(self.files[file], columns=list(columns), partitioning=None)

    def read_vectors(self, file: int) -> tuple[NDArray[np.float32], Numbers, Any]:
        """Return the vectors [m, d] of a file's readable pictures, their numbers [m], and the table of their facts."""
        table = self.read(file, ["sha256", "flat", "vector"])
        readable = np.flatnonzero(table["vector"].is_valid().to_numpy())
        table = table.take(readable)
        column = table["vector"].combine_chunks()
        vectors = column.flatten().to_numpy().astype(np.float32).reshape(len(readable), column.type.list_size)
        return vectors, self.starts[file] + readable, table

    def look_up(self, numbers: Numbers, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each number of an ascending array [n] with the columns of its row."""
        places = np.searchsorted(self.starts, numbers, side="right") - 1
        for file in np.unique(places).tolist():
            own = numbers[places == file]
            rows = self.read(file, columns).take(own - self.starts[file]).to_pylist()
            yield from zip(own.tolist(), rows, strict=True)
