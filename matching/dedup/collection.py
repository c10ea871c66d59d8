"""All pictures of a run by their numbers, those of one part after those of another; on disk, not in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.files import is_folder
from image_copies.data.sources.tables import open_table
from image_copies.matching.dedup.embedding import Embedded, Embedding
from image_copies.matching.threshold import MAX_REFERENCES

Numbers = NDArray[np.int64]


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
    def has_test_sets(self) -> bool:
        """Whether inputs are compared with pictures of test sets only."""
        return self.inputs < len(self)

    def read(self, file: int, columns: Sequence[str]) -> Any:
        """Return columns of a file's rows, as a `pyarrow.Table`."""
        with open_table(self.files[file]) as table:
            return table.read(list(columns))

    def list_inputs(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of each picture of the inputs with columns of its row."""
        for file in range(int(np.searchsorted(self.starts, self.inputs))):
            yield from enumerate(self.read(file, columns).to_pylist(), int(self.starts[file]))

    def name_part(self, file: int) -> str:
        """Return the name of a file's part in its present state."""
        return f"{self.files[file].name} {self.states[file]}"

    def name_picture(self, number: int) -> str:
        """Return a name of a picture in its present state, which it also has in another collection."""
        file = int(np.searchsorted(self.starts, number, side="right")) - 1
        return f"{self.name_part(file)} {number - self.starts[file]}"

    def draw(self, count: int, first: int = 0) -> NDArray[np.float32]:
        """Return vectors [≤ count, d] of pictures in files that are drawn at random, from the file `first` on."""
        parts, left = list[NDArray[np.float32]](), count
        for file in np.random.default_rng(0).permutation(np.arange(first, len(self.files))).tolist():
            parts.append(read_vectors(self.files[file])[0][:left])
            left -= len(parts[-1])
            if not left:
                break
        return np.concatenate(parts)

    def sample(self) -> NDArray[np.float32]:
        """Return vectors [m, d] of pictures that others are compared with, to which a threshold is fitted."""
        return self.draw(
            MAX_REFERENCES, int(np.searchsorted(self.starts, self.inputs)) if self.has_test_sets else 0
        )

    def look_up(self, numbers: Numbers, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each number of an ascending array [n] with the columns of its row."""
        places = np.searchsorted(self.starts, numbers, side="right") - 1
        for file in np.unique(places).tolist():
            own = numbers[places == file]
            rows = self.read(file, columns).take(own - self.starts[file]).to_pylist()
            yield from zip(own.tolist(), rows, strict=True)


def make_collection(
    embedding: Embedding, inputs: Sequence[Embedded], tests: Sequence[Embedded]
) -> Collection:
    """Return the pictures of the containers of inputs and of test sets."""
    every = [*inputs, *tests]
    files = [embedding.place(name) for container in every for name in container.files]
    counts = [count for container in every for count in container.counts]
    states = [container.made_from for container in every for _ in container.counts]
    starts = np.append(0, np.cumsum(counts, dtype=np.int64))
    return Collection(files, starts, sum(sum(container.counts) for container in inputs), states)
