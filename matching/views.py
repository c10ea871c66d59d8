"""Views of a picture, crops of it, turns and the negative, that are searched for besides the whole.

A copy that is part of a page, turned or negated has a vector far from its original's; one of its views has a close one. Where
a picture lies on a screen or page, that is the first crop (`find_picture`). Turned by a quarter either way, an upside-down
picture is near enough, too. Each view is one more chance of a false alarm, so all of them together are held to half of the
rate, the whole picture to the other half: the distance of a view counts as the whole's that is as rare (`Tail.as_whole`).

These views were chosen from 14 crops, 3 turns and the negative on the copies of `photos` and `photos-wide` whose whole is not
sure. A crop of eight tenths went: with it as many are found. They are embedded smaller than whole pictures, and by a graph in
whole numbers where there is one, in under half of the time (docs/experiments.md).

They are made, with the local features of a picture, while its pixels are there for its vector (`Looks`), since decoding takes
longer than all of this where a camera made it.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import cv2
import numpy as np
from tqdm import tqdm

from image_copies.data.arrays import UInt8s
from image_copies.data.decode import Decoded, decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.process import choose_workers
from image_copies.data.squares import resize_square, shrink
from image_copies.data.threads import map_in_threads
from image_copies.models.inference.embedders import Look, list_square_sizes

from .extractor import Extractor
from .threshold import Floats
from .verification.features import DECODED_SIDE, Box, Features, local_features
from .verification.picture import Picture

Pixels = UInt8s


CROPS: tuple[Box, ...] = (
    *((edge, edge, 1 - edge, 1 - edge) for edge in ((1 - 0.35) / 2, (1 - 0.6) / 2)),
    *((0, 0, 1, 0.5), (0, 0, 0.5, 1), (0.5, 0, 1, 1)),
)
VIEWS = len(CROPS) + 3  # two turns and the negative
PAGE_SIDE = 384  # pixels of the long side at which a picture is looked for on a page
SAME = 2  # difference of neighbours in flat surroundings, of 255
# pixels, and share of them that differ from their neighbours in a picture; less in lines of text
WINDOW, BUSY = 9, 0.65
GAPS, SHORTEST = 9, 25  # pixels: flat parts of a picture are narrower, its sides longer
MIN_FILLED = 0.6  # share of its box that a picture fills
PAGE_SHARES = (0.02, 0.85)  # of the page that its box takes
# share of the sides of which a view has all pixels that the networks see; the smallest has seven tenths of
# them
SHOWN = 0.5
# of a file of looks: 48,000 pictures, of at most 90 kB each; what further ones need is made again
MAX_BYTES = 2**32


def list_crops(pixels: Pixels) -> tuple[Box, ...]:
    """Return the boxes of the crops of a picture [h, w, 3]: as many as `CROPS`."""
    found = find_picture(pixels)
    return CROPS if found is None else (found, *CROPS[1:])


def find_picture(pixels: Pixels) -> Box | None:
    """Return the box of the largest picture on a page or screen [h, w, 3], flat but for that and text; None for none."""
    small = shrink(pixels, PAGE_SIDE)
    differences = cv2.morphologyEx(small, cv2.MORPH_GRADIENT, np.ones((2, 2), np.uint8))
    differing = (np.maximum.reduce(cv2.split(differences)) > SAME).astype(np.float32)
    busy = (cv2.boxFilter(differing, -1, (WINDOW, WINDOW)) > BUSY).astype(np.uint8)
    closed = cv2.morphologyEx(busy, cv2.MORPH_CLOSE, np.ones((GAPS, GAPS)))
    opened = cv2.morphologyEx(closed, cv2.MORPH_OPEN, np.ones((SHORTEST, SHORTEST)))
    regions = cv2.connectedComponentsWithStats(opened)[2][1:]
    least, most = (share * busy.size for share in PAGE_SHARES)
    largest, best = 0, None
    for left, top, width, height, area in regions.tolist():
        box = width * height
        if area > max(largest, MIN_FILLED * box) and least <= box <= most:
            largest = area
            best = (left, top, left + width, top + height)
    if best is None:
        return None
    rows, columns = busy.shape
    return best[0] / columns, best[1] / rows, best[2] / columns, best[3] / rows


def make_views(pixels: Pixels, size: int) -> UInt8s:
    """Return the squares [VIEWS, 3, size, size] of a picture [h, w, 3]: its crops, quarter turns either way, and the negative."""
    whole = resize_square(pixels, size)
    crops = [resize_square(crop, size) for crop in _cut_crops(pixels)]
    views = [*crops, np.rot90(whole), np.rot90(whole, -1), 255 - whole]
    return np.stack(views).transpose(0, 3, 1, 2)


def _cut_crops(pixels: Pixels) -> Iterator[Pixels]:
    height, width = pixels.shape[:2]
    for left, top, right, bottom in list_crops(pixels):
        above = min(int(top * height), height - 1)
        before = min(int(left * width), width - 1)
        below = max(above + 1, round(bottom * height))
        behind = max(before + 1, round(right * width))
        yield np.ascontiguousarray(pixels[above:below, before:behind])


def embed_views(
    extractor: Extractor, paths: Sequence[Path], find: Callable[[Path], Floats | None] = lambda path: None
) -> list[Floats | None]:
    """Return the vectors [VIEWS, d] of the views of each file, where `find` has none; None for one that cannot be read."""

    def embed(path: Path) -> Floats | None:
        made = find(path)
        if made is not None:
            return made
        try:
            return embed_views_of(extractor, decode_rgb(path, short_side=smallest_side(extractor)))
        except ImageError:
            return None

    alone = any(network.side_by_side is None for network in extractor.networks)
    threads = 1 if alone else max(1, min(len(paths), choose_workers(extractor.settings.workers)))
    with ExitStack() as held:
        for network in extractor.networks:
            if network.side_by_side is not None:
                held.enter_context(network.side_by_side())
        embedded = map_in_threads(embed, paths, threads)
        return list(tqdm(embedded, "searching with views", len(paths), leave=False, unit="image"))


def embed_views_of(extractor: Extractor, pixels: Pixels) -> Floats:
    """Return the vectors [VIEWS, d] of the views of a picture [h, w, 3]."""
    networks = [network.for_views() for network in extractor.networks]
    squares = {size: make_views(pixels, size) for size in list_square_sizes(networks)}
    return extractor.project(np.concatenate([network.embed(squares) for network in networks], axis=1))


def smallest_side(extractor: Extractor) -> int:
    """Return the short side in pixels that a picture has for its views."""
    return round(max(list_square_sizes(extractor.networks)) / SHOWN)


def find_features(path: Path) -> Features:
    """Find the features of a file by which pairs are verified.

    Raises:
        ImageError: it cannot be read.
    """
    return Picture(path).features


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

    def views(self, path: Path) -> Floats | None:
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

    def _read(self, path: Path) -> tuple[Features, Floats] | None:
        """Return the features and views that were made of a file; None where nothing was."""
        with self._lock:
            if path not in self._places:
                return None
            self.file.seek(self._places[path])
            points, histograms, views, (width, height) = (np.load(self.file) for _ in range(4))
        return Features(points, histograms, int(width), int(height)), views

    def _write(self, path: Path, found: Features, views: Floats) -> None:
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
