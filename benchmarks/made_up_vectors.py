"""Vectors that are as hard to index as those of real pictures, and the memory that working on them takes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.index.store import Store, add_files
from image_copies.submissions.ensemble.projection import scale_to_unit_length

DIMENSIONS, BLOCK = 256, 10_000
PICTURES_PER_KIND = 30  # on average
MAX_SHARED = 0.5  # largest share of a vector's squared length that its kind has in common
COPY_SHARE = 0.1  # share of the contents that are copies of others
COPY_QUANTILES = (0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1)  # of copies, at the squared distances below to their originals
COPY_DISTANCES = (0, 0.006, 0.033, 0.28, 1.031, 1.561, 1.846, 2)
MATCH_DISTANCE = 0.8  # squared distance below which a copy would be reported


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
        self._rng = np.random.default_rng(seed)
        shares = 0.02 * np.exp(-np.arange(DIMENSIONS) / 25) + 0.002
        self._scale = np.diag(np.sqrt(shares / shares.sum())).astype(np.float32)
        self._centres = self._noise(max(1, contents // PICTURES_PER_KIND))
        self.kinds = len(self._centres)
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
        noise: NDArray[np.float32] = self._rng.standard_normal((count, DIMENSIONS), dtype=np.float32) @ self._scale
        return noise


def add_contents(store: Store, vectors: NDArray[np.float32], first: int) -> None:
    """Add vectors as contents with names from `first` on."""
    digests = [(first + row).to_bytes(32, "big") for row in range(len(vectors))]
    files = {Path(f"/pictures/{first + row}.jpg"): digest for row, digest in enumerate(digests)}
    add_files(store, files, dict(zip(digests, vectors, strict=True)))


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
