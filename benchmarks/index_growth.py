"""An index of a million vectors that grows: time and memory of adding, opening and searching, recall of approximate search.

    python benchmarks/index_growth.py [--contents 1000000]

There are no pictures and no network: vectors are drawn such that they are as hard to index as real ones (`Population`). Wall and
processor seconds of each part are printed, and its highest resident memory without mapped files.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from image_copies.matching.index.search import SearchIndex, find_nearest, open_search
from image_copies.matching.index.segments import open_segments
from image_copies.matching.index.store import Content, Store, add_files, open_store, remove_files
from image_copies.submissions.ensemble.projection import scale_to_unit_length

DIMENSIONS, BLOCK, QUERIES, ADDED, NEAREST = 256, 10_000, 1000, 1000, 10
PICTURES_PER_KIND = 30  # on average
MAX_SHARED = 0.5  # largest share of a vector's squared length that its kind has in common
COPY_SHARE = 0.1  # share of the contents that are copies of others
COPY_QUANTILES = (0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1)  # of copies, at the squared distances below to their originals
COPY_DISTANCES = (0, 0.006, 0.033, 0.28, 1.031, 1.561, 1.846, 2)
MATCH_DISTANCE = 0.8  # squared distance below which a copy would be reported
CONSOLE = Console(width=120)
T = TypeVar("T")


class Population:
    """Unit vectors with the measured properties of real descriptors.

    Fitted to 12,000 vectors of photographs (a joined descriptor, PCA to 256 dimensions, not whitened): the spectrum of the
    covariance (first share 2.1 %, last .2 %, participation ratio 126; measured 148), squared distances to the nearest (median
    1.20; measured 1.26) and tenth nearest (1.39; 1.41), and recall at 10 of 128 inverted lists of which 12, 25 and 51 are
    probed (.74, .87, .96; .73, .87, .96). Copies lie as far from their originals as 400 edited photographs do.

    Attributes:
        kinds: Number of kinds of pictures.
    """

    def __init__(self, contents: int, seed: int) -> None:
        """Draw the kinds of a collection of `contents` pictures."""
        self.kinds = max(1, contents // PICTURES_PER_KIND)
        self._rng = np.random.default_rng(seed)
        shares = 0.02 * np.exp(-np.arange(DIMENSIONS) / 25) + 0.002
        self._scale = np.sqrt(shares / shares.sum()).astype(np.float32)
        self._centres = self._noise(self.kinds)
        self._likeness = MAX_SHARED * self._rng.random((self.kinds, 1), dtype=np.float32)

    def draw(self, count: int) -> NDArray[np.float32]:
        """Return vectors [count, d] of new pictures."""
        kinds = self._rng.integers(0, self.kinds, count)
        likeness = self._likeness[kinds]
        vectors = np.sqrt(likeness) * self._centres[kinds] + np.sqrt(1 - likeness) * self._noise(count)
        return scale_to_unit_length(vectors.astype(np.float32))

    def draw_copies(self, originals: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return vectors [n, d] of edited copies, and their squared distances [n] to the originals."""
        distances = np.interp(self._rng.random(len(originals)), COPY_QUANTILES, COPY_DISTANCES)
        cosines = (1 - distances / 2).astype(np.float32)[:, None]
        away = self._noise(len(originals))
        along: NDArray[np.float32] = (away * originals).sum(axis=1, keepdims=True)
        away = scale_to_unit_length((away - along * originals).astype(np.float32))
        copies = cosines * originals + np.sqrt(1 - cosines**2) * away
        return scale_to_unit_length(copies.astype(np.float32)), distances

    def draw_blocks(self, count: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of a collection, of which a share are copies of others in the same block."""
        for first in range(0, count, BLOCK):
            vectors = self.draw(min(BLOCK, count - first))
            copied = int(COPY_SHARE * len(vectors))
            vectors[:copied] = self.draw_copies(vectors[copied : 2 * copied])[0]
            yield vectors

    def _noise(self, count: int) -> NDArray[np.float32]:
        noise: NDArray[np.float32] = self._rng.standard_normal((count, DIMENSIONS), dtype=np.float32) * self._scale
        return noise


def add(store: Store, vectors: NDArray[np.float32], first: int) -> None:
    """Add vectors as contents with names from `first` on."""
    digests = [(first + row).to_bytes(32, "big") for row in range(len(vectors))]
    files = {Path(f"/pictures/{first + row}.jpg"): digest for row, digest in enumerate(digests)}
    add_files(store, files, [Content(digest, vector) for digest, vector in zip(digests, vectors, strict=True)])


def measure_unmapped_memory() -> float:
    """Return the resident memory that belongs to no file, in GiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 2**20


@contextmanager
def watch_memory() -> Iterator[list[float]]:
    """Record the highest unmapped memory during the block, in GiB, as the only item of the list."""
    seen, ended = [measure_unmapped_memory()], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            seen[0] = max(seen[0], measure_unmapped_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def compute_recall(found: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    """Return the share of the true contents [n, k] that are among those found [n, k]."""
    return float(
        np.mean([len(set(one) & set(other)) / len(other) for one, other in zip(found.tolist(), true.tolist(), strict=True)])
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contents", type=int, default=1_000_000)
    contents = parser.parse_args().contents
    table = Table("part", "seconds", "processor seconds", "GiB at most", title=f"{contents:,} × {DIMENSIONS}")
    took: dict[str, float] = {}

    def time_part(name: str, work: Callable[[], T]) -> T:
        with watch_memory() as memory:
            wall, processor = time.perf_counter(), time.process_time()
            result = work()
            took[name] = time.process_time() - processor
            row = f"{time.perf_counter() - wall:.1f}", f"{took[name]:.2f}"
        table.add_row(name, *row, f"{memory[0]:.2f}")
        return result

    population = Population(contents, 0)
    with tempfile.TemporaryDirectory() as name, open_store(Path(name), "simulated", DIMENSIONS) as store:

        def fill() -> None:
            for number, vectors in enumerate(population.draw_blocks(contents)):
                add(store, vectors, number * BLOCK)

        def add_and_open() -> SearchIndex:
            add(store, fresh, contents)
            return open_search(store)

        def remove_and_open() -> SearchIndex:
            remove_files(store, [Path(f"/pictures/{contents // ADDED * row}.jpg") for row in range(ADDED)])
            return open_search(store)

        time_part("fill", fill)
        time_part("make the files of vectors", lambda: open_segments(store))
        time_part("train the quantiser, make the codes", lambda: open_search(store))
        files = {path.name for path in Path(name).glob("[cqv]*")}
        index = time_part("open", lambda: open_search(store))
        fresh, originals = population.draw(ADDED), index.reconstruct_batch(index.numbers()[:: contents // (QUERIES // 2)])
        time_part(f"add {ADDED:,} and open", add_and_open)
        index = time_part(f"remove {ADDED:,} and open", remove_and_open)
        kept = files <= {path.name for path in Path(name).glob("[cqv]*")}
        copies, distances = population.draw_copies(originals[: QUERIES // 2])
        queries = np.concatenate([copies, population.draw(QUERIES // 2)])
        compared = open_search(store, exact=True)
        true = time_part("search exactly", lambda: find_nearest(compared, queries, NEAREST))
        found = time_part("search by the codes", lambda: find_nearest(index, queries, NEAREST))
        time_part("one query, exactly", lambda: find_nearest(compared, queries[:1], NEAREST))
        time_part("one query, by the codes", lambda: find_nearest(index, queries[:1], NEAREST))
    CONSOLE.print(table)
    near = np.flatnonzero(distances < MATCH_DISTANCE)
    first = float((found.contents[near, 0] == true.contents[near, 0]).mean())
    CONSOLE.print(
        f"{QUERIES:,} queries, {NEAREST} nearest: recall of exact search {compute_recall(found.contents, true.contents):.4f}"
    )
    CONSOLE.print(f"of {len(near)} copies within {MATCH_DISTANCE}, the nearest is the same for {first:.4f}")
    CONSOLE.print(f"exact ÷ by the codes, processor seconds: {took['search exactly'] / took['search by the codes']:.1f}")
    CONSOLE.print(f"approximate: {not index.exact}; files written before kept as they were: {kept}")


if __name__ == "__main__":
    main()
