"""Augmentations of image classification: MultiGrain's `full` set and AutoAugment's ImageNet policy."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from augmentations.tables.isc2021 import Edit, Parameters

Image = NDArray[np.uint8]
# Principal components of ImageNet's colours (A. Krizhevsky et al., 2012), as MultiGrain's `full` set uses them.
LIGHTING_VALUES = np.array([0.2175, 0.0188, 0.0045], np.float32)
LIGHTING_VECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]], np.float32)


def resized_crop(image: Image, area: float, ratio: float, x: float, y: float) -> Image:
    """A part with `area` of the image's area and the aspect `ratio` (width / height), at shares (x, y) of the room left."""
    height, width = image.shape[:2]
    part_width = int(np.clip(round((area * height * width * ratio) ** 0.5), 2, width))
    part_height = int(np.clip(round((area * height * width / ratio) ** 0.5), 2, height))
    left, top = round(x * (width - part_width)), round(y * (height - part_height))
    return image[top : top + part_height, left : left + part_width].copy()  # never a view of the input


def pca_lighting(image: Image, weights: list[float]) -> Image:
    """Add weights · eigenvalues along the principal colours of ImageNet."""
    shift = 255 * LIGHTING_VECTORS @ (np.array(weights, np.float32) * LIGHTING_VALUES)
    values = np.arange(256, dtype=np.float32)[:, None] + shift
    return cv2.LUT(image, np.clip(values.round(), 0, 255).astype(np.uint8)[None])  # type: ignore[return-value]


def auto_augment(image: Image, seed: int) -> Image:
    """AutoAugment with ImageNet's policy, from torchvision; its draws follow `seed` alone."""
    import torch  # here: only this edit needs torch

    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        edited = _policy()(pixels)
    return np.ascontiguousarray(edited.permute(1, 2, 0).numpy())


@lru_cache(maxsize=1)
def _policy() -> Any:
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy

    return AutoAugment(AutoAugmentPolicy.IMAGENET)


def _draw_crop(rng: np.random.Generator, intensity: float) -> Parameters:
    ratio = float(np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3))))
    return {"area": rng.uniform(0.08, 1), "ratio": ratio, "x": rng.random(), "y": rng.random()}


def _draw_jitter(rng: np.random.Generator, intensity: float) -> Parameters:
    brightness, contrast, saturation = rng.uniform(0.7, 1.3, 3).tolist()
    return {"brightness": brightness, "contrast": contrast, "saturation": saturation}


def _certain(intensity: float) -> float:
    return 1.0


CROP_AND_FLIP: Sequence[Edit] = (
    Edit("resized_crop", "resized_crop", _certain, _draw_crop),
    Edit("hflip", "hflip", lambda intensity: 0.5, lambda rng, i: {}),
)
MULTIGRAIN_FULL: Sequence[Edit] = (
    *CROP_AND_FLIP,
    Edit("color_jitter", "color_jitter", _certain, _draw_jitter),
    Edit("pca_lighting", "pca_lighting", _certain, lambda rng, i: {"weights": rng.normal(0, 0.1, 3).tolist()}),
)
AUTO_AUGMENT: Sequence[Edit] = (
    *CROP_AND_FLIP,
    Edit("auto_augment", "auto_augment", _certain, lambda rng, i: {"seed": int(rng.integers(2**31))}),
)
