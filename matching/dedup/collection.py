"""All pictures of a run by their numbers, those of one part after those of another; on disk, not in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.files import is_folder
from image_copies.data.sources.tables import open_table
from image_copies.matching.threshold import choose_sample

Numbers = NDArray[np.int64]
SAMPLED_FILES = 16  # files that a threshold's references are drawn from


def list_names(folder: Path) -> set[str]:
    """Return the names of what is in a folder, which may not be there yet."""
    return {path.name for path in folder.iterdir()} if is_folder(folder) else set()


def load_array(path: Path) -> NDArray[Any]:
    """Return the array [n, …] of an .npy file on a disk or an object store."""
    with path.open("rb") as file:
        return np.asarray(np.load(file))


def read_vectors(path: Path) -> tuple[NDArray[np.float32], Numbers, Any]:
    """Return the vectors [m, d] of the readable pictures of a part's file, their rows [m], and the table of their facts."""
    with open_table(path) as file:
        table = file.read(["sha256", "flat", "vector"])
    readable = np.flatnonzero(table["vector"].is_valid().to_numpy())
    table = table.take(readable)
    column = table["vector"].combine_chunks()
    vectors = column.flatten().to_numpy().astype(np.float32).reshape(len(readable), column.type.list_size)
    return vectors, readable, table


@dataclass(frozen=True)
class Collection:
    """The files of vectors.

    Attributes:
        files: A file for each part, those of test sets last.
        starts: Number of the first picture of each file, and of all pictures, int64 [files + 1].
        inputs: How many pictures belong to the inputs; the others to test sets.
        states: Of the container of each file.
    """

    files: Sequence[Path]
    starts: Numbers
    inputs: int
    states: Sequence[str]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def test_sets_begin(self) -> int | None:
        """Number of the first picture of a test set; None where there are no test sets."""
        return self.inputs if self.inputs < len(self) else None

    def read(self, file: int, columns: Sequence[str]) -> Any:
        """Return columns of a file's rows, as a `pyarrow.Table`."""
        with open_table(self.files[file]) as table:
            return table.read(list(columns))

    def name_part(self, file: int) -> str:
        """Return the name of a file's part in its present state."""
        return f"{self.files[file].name} {self.states[file]}"

    def sample(self) -> NDArray[np.float32]:
        """Return vectors [m, d] of pictures that others are compared with, of few files, to which a threshold is fitted."""
        first = int(np.searchsorted(self.starts, self.inputs)) if self.test_sets_begin is not None else 0
        chosen = first + choose_sample(len(self.files) - first, SAMPLED_FILES)
        vectors = np.concatenate([read_vectors(self.files[file])[0] for file in chosen.tolist()])
        return vectors[choose_sample(len(vectors))]

    def look_up(self, numbers: Numbers, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each number of an ascending array [n] with the columns of its row."""
        places = np.searchsorted(self.starts, numbers, side="right") - 1
        for file in np.unique(places).tolist():
            own = numbers[places == file]
            rows = self.read(file, columns).take(own - self.starts[file]).to_pylist()
            yield from zip(own.tolist(), rows, strict=True)
