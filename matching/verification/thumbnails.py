"""Whether a thumbnail inside a file shows the file's picture: one that a crop or a retouch left behind shows more than that."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

CELLS = 16  # parts of a side in which two pictures are compared
MAX_PIXELS = 5_000_000  # of a thumbnail that is decoded
MAX_REST = 0.19  # share of what the cells vary that is not the picture's: 0.1 for thumbnails, 0.2 for crops to 95 %
MAX_APART = 50.0  # grey levels of a cell, of the same tones: a thumbnail, however sharpened, differs by up to 47


def shows_picture(thumbnail: bytes, picture: Image.Image) -> bool:
    """Whether a thumbnail, a JPEG, shows a picture as a whole or its middle, in any tones, turned, stretched or between bars."""
    try:
        with Image.open(io.BytesIO(thumbnail), formats=["JPEG"]) as image:
            if image.width * image.height > MAX_PIXELS:
                return False
            grey = image.convert("L")
    except Exception:  # damaged ones raise anything
        return False
    pairs = (grey, picture), (ImageOps.fit(grey, picture.size), picture), (grey, ImageOps.fit(picture, grey.size))
    return any(_agree(_reduce(one), _reduce(other)) for one, other in pairs)


def _reduce(image: Image.Image) -> NDArray[np.float64]:
    """Return the grey values of the cells of a picture [CELLS, CELLS], mean 0."""
    cells = np.asarray(image.convert("L").resize((CELLS, CELLS), Image.Resampling.BOX), np.float64)
    return np.asarray(cells - cells.mean(), np.float64)


def _agree(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether cells are those of the other picture in some turn, or mirrored."""
    for turn in range(4):
        for own in (np.rot90(one, turn), np.rot90(one, turn)[::-1]):
            contrast = (own * other).sum() / max(1.0, float((other * other).sum()))
            rest = own - contrast * other
            small = (rest * rest).sum() <= MAX_REST * (own * own).sum()
            if contrast >= 0 and small and np.abs(rest).max() < MAX_APART:
                return True
    return False
