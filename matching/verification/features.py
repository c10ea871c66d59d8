"""Local features of a picture, and what they would be in its mirror image or negative.

SIFT (Lowe 2004) with the square root of its L1-normalised histograms (RootSIFT, Arandjelović and Zisserman 2012). A mirror image
or a negative needs no second detection: mirroring reverses the rows of the 4 × 4 cells and the direction of the 8 angles,
a negative turns every gradient by 180°, with it the orientation, and with that the grid of cells.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Literal, get_args

import cv2
import numpy as np

from image_copies.data.arrays import Float32s, UInt8s
from image_copies.data.decode import as_uint8

from .alignment import resize_by

MAX_SIDE = 400  # pixels of the longer side; larger pictures are reduced to it
DECODED_SIDE = MAX_SIDE // 2  # pixels of the short side from which a picture is decoded for them
MAX_FEATURES = 600  # features of a picture, the strongest ones
# SIFT's contrast threshold, half of its default: edited copies are often pale or blurred
MIN_CONTRAST = 0.02
Box = tuple[float, float, float, float]  # left, top, right, bottom, as shares 0…1 of width and height
CELLS, ANGLES = 4, 8  # a SIFT histogram has 4 × 4 cells with 8 angles each
Change = Literal["", "mirrored", "inverted", "mirrored and inverted"]
CHANGES: tuple[Change, ...] = get_args(Change)


@dataclass(frozen=True)
class Features:
    """Local features of one picture.

    Attributes:
        points: float32 [n, 2], x and y in pixels of the reduced picture.
        histograms: uint8 [n, 128], SIFT's histograms; they need a quarter of the descriptors' memory.
        width: Width of the reduced picture in pixels.
        height: Height of the reduced picture in pixels.
    """

    points: Float32s
    histograms: UInt8s
    width: int
    height: int
    _changed: dict[Change, tuple[Float32s, Float32s]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def changed(self, change: Change) -> tuple[Float32s, Float32s]:
        """Return points and descriptors of the picture with a change, in the same order; they are made once."""
        if change not in self._changed:
            points = self.points
            cells = self.histograms.reshape(-1, CELLS, CELLS, ANGLES)
            if "mirrored" in change:
                points = points * np.array([-1, 1], np.float32) + np.array([self.width - 1, 0], np.float32)
                cells = cells[:, ::-1][..., -np.arange(ANGLES) % ANGLES]
            if "inverted" in change:
                cells = cells[:, ::-1, ::-1]
            self._changed[change] = points, describe(cells.reshape(-1, 128))
        return self._changed[change]


def describe(histograms: UInt8s) -> Float32s:
    """Return the descriptors [n, 128] of histograms: square roots of the L1-normalised ones, unit length."""
    values = histograms.astype(np.float32)
    sums = np.maximum(values.sum(axis=1, keepdims=True), np.float32(1e-9))
    return np.asarray(np.sqrt(values / sums), np.float32)


def local_features(pixels: UInt8s) -> Features:
    """Find the strongest features of a picture.

    Args:
        pixels: uint8 [h, w, 3], RGB.

    Returns:
        At most `MAX_FEATURES` features of the picture, reduced to `MAX_SIDE` if it is larger.
    """
    return detect_features(reduce_to_grey(pixels))


def reduce_to_grey(pixels: UInt8s) -> UInt8s:
    """Return the grey values [h, w] of a picture [h, w, 3], reduced to `MAX_SIDE` if it is larger."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    factor = MAX_SIDE / max(grey.shape)
    return resize_by(as_uint8(grey), factor) if factor < 1 else as_uint8(grey)


def detect_features(grey: UInt8s) -> Features:
    """Find the strongest features of a reduced picture [h, w]."""
    found, histograms = _make_detector().detectAndCompute(grey, None)
    height, width = grey.shape
    if histograms is None:
        return Features(np.zeros((0, 2), np.float32), np.zeros((0, 128), np.uint8), width, height)
    points = np.array([point.pt for point in found[:MAX_FEATURES]], np.float32)
    return Features(points, histograms[:MAX_FEATURES].astype(np.uint8), width, height)


def crop_features(pixels: UInt8s, box: Box, whole: Features) -> Features:
    """Find the strongest features of a part of a picture; its points are in pixels of the reduced whole.

    Args:
        pixels: uint8 [h, w, 3], RGB.
        box: The part: left, top, right, bottom, as shares 0…1 of width and height.
        whole: Features of the whole picture.
    """
    shape = np.array(pixels.shape[1::-1])
    start, end = np.rint(np.reshape(box, (2, 2)) * shape).astype(int)
    part = local_features(np.ascontiguousarray(pixels[start[1] : end[1], start[0] : end[0]]))
    enlarged = (part.points + 0.5) * ((end - start) / (part.width, part.height)) + start
    points = enlarged * ((whole.width, whole.height) / shape) - 0.5
    return Features(points.astype(np.float32), part.histograms, whole.width, whole.height)


@cache
def _make_detector() -> cv2.SIFT:
    return cv2.SIFT.create(nfeatures=MAX_FEATURES, contrastThreshold=MIN_CONTRAST)
