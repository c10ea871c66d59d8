"""Descriptors that learn nothing: what a trained model must beat on the same images."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import imagehash
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from data.cores import map_on_cores
from data.decode import decode_rgb
from data.errors import ImageError
from data.images import ImageSet

GREY_SIDE = 24
Baseline = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


@dataclass(frozen=True)
class Described:
    """Vectors of a baseline, in the order of the images.

    Attributes:
        vectors: float32 [n, d]; zero for an unreadable image.
        unreadable: bool [n].
    """

    vectors: NDArray[np.float32]
    unreadable: NDArray[np.bool_]


def perceptual_hash(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The 64-bit DCT hash of [h, w, 3] uint8 as ±1/8 [64]: unit length, squared distance = Hamming distance / 16."""
    bits = imagehash.phash(Image.fromarray(pixels)).hash.ravel()
    return np.where(bits, 0.125, -0.125).astype(np.float32)


def grey_pixels(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """24 × 24 grey values of [h, w, 3] uint8 as [576], mean 0, unit length; to be whitened on training images."""
    small = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (GREY_SIDE, GREY_SIDE), interpolation=cv2.INTER_AREA)
    values = small.astype(np.float32).ravel()
    values -= values.mean()
    return values / max(float(np.linalg.norm(values)), 1e-6)


def describe(images: ImageSet, baseline: Baseline, workers: int | None = None) -> Described:
    """Apply a baseline to every image, each decoded at 64 pixels or more, on `workers` processes (None: all cores)."""
    rows = list(map_on_cores(partial(_describe_one, baseline), images.paths, workers, chunk=32))
    dimensions = next((len(row) for row in rows if row is not None), 1)
    vectors = np.stack([np.zeros(dimensions, np.float32) if row is None else row for row in rows])
    return Described(vectors, np.array([row is None for row in rows]))


def _describe_one(baseline: Baseline, path: Path) -> NDArray[np.float32] | None:
    try:
        return baseline(decode_rgb(path, short_side=64))
    except ImageError:
        return None
