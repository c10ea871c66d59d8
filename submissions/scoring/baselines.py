"""Baseline descriptors without learning, which a trained model must beat on the same images."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.images import ImageSet
from image_copies.data.process import map_on_cores
from image_copies.submissions.vectors.files import Vectors

GREY_SIDE = 24  # pixels
Baseline = Callable[[NDArray[np.uint8]], NDArray[np.float32]]  # pixels [h, w, 3] to a vector [d]


def compute_perceptual_hash(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the 64-bit DCT hash of a picture, uint8 [h, w, 3], as float32 [64] of ±1/8, of unit length.

    The squared distance of two hashes is their Hamming distance / 16.
    """
    import imagehash  # here: a run without baselines needs neither it nor its wavelets

    bits = imagehash.phash(Image.fromarray(pixels)).hash.ravel()
    return np.where(bits, 0.125, -0.125).astype(np.float32)


def describe_grey_pixels(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return 24 × 24 grey values of a picture, uint8 [h, w, 3], as float32 [576] with mean 0 and unit length.

    They are meant to be whitened on training images afterwards.
    """
    small = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (GREY_SIDE, GREY_SIDE), interpolation=cv2.INTER_AREA)
    values = small.astype(np.float32).ravel()
    values -= values.mean()
    return values / max(float(np.linalg.norm(values)), 1e-6)


def describe_images(images: ImageSet, baseline: Baseline, workers: int | None = None) -> Vectors:
    """Apply a baseline, which must be picklable, to every image.

    Images are decoded with a short side of at least 64 pixels, if they have as many. `workers` are processes; None for one per
    core.
    """
    rows = list(map_on_cores(partial(_describe_image, baseline), images.paths, workers, chunk=32))
    dimensions = next((len(row) for row in rows if row is not None), 1)
    vectors = np.stack([np.zeros(dimensions, np.float32) if row is None else row for row in rows])
    return Vectors(images.ids, vectors, np.array([row is None for row in rows]))


def _describe_image(baseline: Baseline, path: Path) -> NDArray[np.float32] | None:
    try:
        return baseline(decode_rgb(path, short_side=64))
    except ImageError:
        return None
