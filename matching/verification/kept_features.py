"""Local features of more pictures than memory is to hold: found once, and kept in a temporary file until the search is done."""

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from image_copies.matching.verification.features import Features

MAX_BYTES = 2**32  # of the file: 50,000 pictures, of at most 82 kB each; features of further ones are found again
POINT_BYTES, HISTOGRAM_BYTES = 8, 128  # of a feature


@contextmanager
def keep_features(
    find: Callable[[Path], Features], folder: Path | None, most: int = MAX_BYTES
) -> Iterator[Callable[[Path], Features]]:
    """Yield a function that finds the features of a file once; what keeps them has no name, and ends with the process."""
    with tempfile.TemporaryFile(dir=folder) as file:
        yield _Keeper(find, file, most).of


class _Keeper:
    def __init__(self, find: Callable[[Path], Features], file: IO[bytes], most: int) -> None:
        self._find, self._file, self._most = find, file, most
        self._places: dict[Path, tuple[int, int, int, int]] = {}  # first byte, number of features, width, height
        self._lock = threading.Lock()

    def of(self, path: Path) -> Features:
        """Return the features of a file.

        Raises:
            ImageError: it cannot be read.
        """
        with self._lock:
            if path in self._places:
                return self._read(*self._places[path])
        found = self._find(path)
        with self._lock:
            self._write(path, found)
        return found

    def _read(self, first: int, count: int, width: int, height: int) -> Features:
        self._file.seek(first)
        content = self._file.read(count * (POINT_BYTES + HISTOGRAM_BYTES))
        points = np.frombuffer(content, np.float32, 2 * count).reshape(count, 2)
        return Features(
            points, np.frombuffer(content, np.uint8, offset=count * POINT_BYTES).reshape(count, HISTOGRAM_BYTES), width, height
        )

    def _write(self, path: Path, found: Features) -> None:
        first = self._file.seek(0, 2)
        if path in self._places or first >= self._most:
            return
        try:
            self._file.write(found.points.tobytes() + found.histograms.tobytes())
            self._file.flush()
        except OSError:  # the disk is full: what is there can still be read
            self._most = 0
            return
        self._places[path] = first, len(found.points), found.width, found.height
