"""Descriptors that learn nothing: floors that a trained model must pass on the same images."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import cv2
import imagehash
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from data.decode import decode_rgb
from data.errors import ImageError
from data.images import ImageSet

GREY_SIDE = 24
Baseline = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


@dataclass(frozen=True)
class Described:
    """Vectors [n, d] float32 in the order of the images; rows of unreadable images are zero and marked."""

    vectors: NDArray[np.float32]
    unreadable: NDArray[np.bool_]


def perceptual_hash(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The 64-bit DCT hash as ±1/8 [64]: unit length, squared distance = Hamming distance / 16."""
    bits = imagehash.phash(Image.fromarray(pixels)).hash.ravel()
    return np.where(bits, 0.125, -0.125).astype(np.float32)


def grey_pixels(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """24 × 24 grey values [576], mean 0, unit length; whitened on training images they are the second floor."""
    small = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (GREY_SIDE, GREY_SIDE), interpolation=cv2.INTER_AREA)
    values = small.astype(np.float32).ravel()
    values -= values.mean()
    return values / max(float(np.linalg.norm(values)), 1e-6)


def describe(images: ImageSet, baseline: Baseline, workers: int | None = None) -> Described:
    """Apply a baseline descriptor to every image, each decoded at 64 pixels or more."""
    with ProcessPoolExecutor(workers or os.cpu_count(), get_context("forkserver")) as pool:
        rows = list(pool.map(partial(_describe_one, baseline), images.paths, chunksize=32))
    dimensions = next((len(row) for row in rows if row is not None), 1)
    vectors = np.stack([np.zeros(dimensions, np.float32) if row is None else row for row in rows])
    return Described(vectors, np.array([row is None for row in rows]))


def _describe_one(baseline: Baseline, path: Path) -> NDArray[np.float32] | None:
    try:
        return baseline(decode_rgb(path, short_side=64))
    except ImageError:
        return None
