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
from typing import IO, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.data.decode import Decoded, decode_rgb
from image_copies.data.errors import ImageError
from image_copies.matching.extractor import Extractor
from image_copies.matching.pairs import FEATURES_SIDE, find_features
from image_copies.matching.verification.features import Features, local_features
from image_copies.matching.views import embed_views_of, smallest_side
from image_copies.models.inference.embedders import Look

MAX_BYTES = 2**32  # of the file: 48,000 pictures, of at most 89 kB each; what further ones need is made again
POINT_BYTES, HISTOGRAM_BYTES = 8, 128  # of a feature


class _Place(NamedTuple):
    """Where the file holds what was made of a picture: the first byte, the numbers of features and views, the picture's size."""

    first: int
    features: int
    width: int
    height: int
    views: int


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
    _places: dict[Path, _Place] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def look(self) -> Look | None:
        """What pictures are shown while they are decoded; None where that is no use, as for a GPU, which embeds views apart."""
        side_by_side = all(network.side_by_side is not None for network in self.extractor.networks)
        return self._take if self.ahead and side_by_side else None

    def _take(self, path: Path, content: bytes, decoded: Decoded) -> None:
        """Make both of a file's bytes, of which some scales were decoded already; nothing of what cannot be read."""
        with suppress(ImageError):
            views = embed_views_of(self.extractor, decode_rgb(content, smallest_side(self.extractor), decoded))
            self._write(path, local_features(decode_rgb(content, FEATURES_SIDE, decoded)), views)

    def views(self, path: Path) -> NDArray[np.float32] | None:
        """Return the vectors [VIEWS, d] of a file's views; None where they were not made."""
        place = self._places.get(path)
        if place is None or not place.views:
            return None
        first = place.first + place.features * (POINT_BYTES + HISTOGRAM_BYTES)
        vectors = np.frombuffer(self._read(first, 4 * place.views * self.extractor.dimensions), np.float32)
        return vectors.reshape(place.views, self.extractor.dimensions)

    def features(self, path: Path) -> Features:
        """Return the features of a file.

        Raises:
            ImageError: It cannot be read.
        """
        place = self._places.get(path)
        if place is None:
            found = find_features(path)
            self._write(path, found, np.zeros((0, self.extractor.dimensions), np.float32))
            return found
        content, bounds = self._read(place.first, place.features * (POINT_BYTES + HISTOGRAM_BYTES)), place.features * POINT_BYTES
        points = np.frombuffer(content[:bounds], np.float32).reshape(-1, 2)
        return Features(points, np.frombuffer(content[bounds:], np.uint8).reshape(-1, HISTOGRAM_BYTES), place.width, place.height)

    def _read(self, first: int, count: int) -> bytes:
        with self._lock:
            self.file.seek(first)
            return self.file.read(count)

    def _write(self, path: Path, found: Features, views: NDArray[np.float32]) -> None:
        with self._lock:
            first = self.file.seek(0, 2)
            if path in self._places or first >= self.most:
                return
            try:
                self.file.write(found.points.tobytes() + found.histograms.tobytes() + views.tobytes())
                self.file.flush()
            except OSError:  # the disk is full: what is there can still be read
                self.most = 0
                return
            self._places[path] = _Place(first, len(found.points), found.width, found.height, len(views))


@contextmanager
def keep_looks(extractor: Extractor, folder: Path | None, most: int = MAX_BYTES) -> Iterator[Looks]:
    """Open what keeps the looks of one search, in a file in a folder that has no name, and ends with the process."""
    cv2.setNumThreads(1)  # threads take a picture each
    with tempfile.TemporaryFile(dir=folder) as file:
        yield Looks(extractor, file, most)
