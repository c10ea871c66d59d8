"""What a search asks of a picture besides its vector: the vectors of its views, and its local features.

They are made while its pixels are there for its vector, since decoding takes longer than all of this where a camera made the
picture, and kept in a temporary file until the search is done. What is not there is made when it is asked for, and is the same.
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.data.decode import Decoded, decode_rgb
from image_copies.data.errors import ImageError
from image_copies.matching.extractor import Extractor
from image_copies.matching.pairs import find_features
from image_copies.matching.verification.features import DECODED_SIDE, Features, local_features
from image_copies.matching.views import embed_views_of, smallest_side
from image_copies.models.inference.embedders import Look

MAX_BYTES = 2**32  # of the file: 48,000 pictures, of at most 90 kB each; what further ones need is made again


@dataclass
class Looks:
    """The features and views of the pictures of a search; `keep_looks` opens it.

    Attributes:
        extractor: Embeds the views.
        file: Holds what was made.
        most: Bytes from which on the file does not grow.
        ahead: Whether all of it will be asked of nearly every picture, so that it is made when a picture is decoded.
    """

    extractor: Extractor
    file: IO[bytes]
    most: int = MAX_BYTES
    ahead: bool = False
    _places: dict[Path, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def look(self) -> Look | None:
        """What pictures are shown while they are decoded; None where that is no use, as for a GPU, which embeds views apart."""
        side_by_side = all(network.side_by_side is not None for network in self.extractor.networks)
        return self._take if self.ahead and side_by_side else None

    def _take(self, path: Path, content: bytes, decoded: Decoded) -> None:
        """Make both of a file's bytes, of which some scales were decoded already; nothing of what cannot be read."""
        with suppress(ImageError):
            views = embed_views_of(
                self.extractor, decode_rgb(content, smallest_side(self.extractor), decoded)
            )
            self._write(path, local_features(decode_rgb(content, DECODED_SIDE, decoded)), views)

    def views(self, path: Path) -> NDArray[np.float32] | None:
        """Return the vectors [VIEWS, d] of a file's views; None where they were not made."""
        found = self._read(path)
        return None if found is None or not len(found[1]) else found[1]

    def features(self, path: Path) -> Features:
        """Return the features of a file.

        Raises:
            ImageError: It cannot be read.
        """
        if (known := self._read(path)) is not None:
            return known[0]
        found = find_features(path)
        self._write(path, found, np.zeros((0, self.extractor.dimensions), np.float32))
        return found

    def _read(self, path: Path) -> tuple[Features, NDArray[np.float32]] | None:
        """Return the features and views that were made of a file; None where nothing was."""
        with self._lock:
            if path not in self._places:
                return None
            self.file.seek(self._places[path])
            points, histograms, views, (width, height) = (np.load(self.file) for _ in range(4))
        return Features(points, histograms, int(width), int(height)), views

    def _write(self, path: Path, found: Features, views: NDArray[np.float32]) -> None:
        with self._lock:
            first = self.file.seek(0, 2)
            if path in self._places or first >= self.most:
                return
            try:
                for array in (found.points, found.histograms, views, [found.width, found.height]):
                    np.save(self.file, array)
                self.file.flush()
            except OSError:  # the disk is full: what is there can still be read
                self.most = 0
                return
            self._places[path] = first


@contextmanager
def keep_looks(extractor: Extractor, folder: Path | None, most: int = MAX_BYTES) -> Iterator[Looks]:
    """Open what keeps the looks of one search, in a file in a folder that has no name, and ends with the process."""
    cv2.setNumThreads(1)  # threads take a picture each
    with tempfile.TemporaryFile(dir=folder) as file:
        yield Looks(extractor, file, most)
