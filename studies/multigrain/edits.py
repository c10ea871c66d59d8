"""MultiGrain's `full` set of augmentations, and AutoAugment's ImageNet policy; the intensity has no effect on them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np

from image_copies.augmentations.edits.colour import color_jitter
from image_copies.augmentations.edits.geometry import hflip
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.augmentations.tables.row import Edit, Parameters, always, between, drawn, seed
from image_copies.data.decode import as_uint8

# Principal components of ImageNet's colours (A. Krizhevsky et al., 2012), as MultiGrain's `full` set uses them.
LIGHTING_VALUES = np.array([0.2175, 0.0188, 0.0045], np.float32)
LIGHTING_VECTORS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]], np.float32
)


@edit("crop")
def resized_crop(image: Image, area: float, ratio: float, x: float, y: float) -> Image:
    """Crop to `area` × the image's area at aspect `ratio` (width / height), placed by (x, y), 0…1, from the top left."""
    height, width = image.shape[:2]
    part_width = int(np.clip(round((area * height * width * ratio) ** 0.5), 2, width))
    part_height = int(np.clip(round((area * height * width / ratio) ** 0.5), 2, height))
    left = round(x * (width - part_width))
    top = round(y * (height - part_height))
    return image[top : top + part_height, left : left + part_width].copy()  # never a view of the input


@edit("colour")
def pca_lighting(image: Image, weights: list[float]) -> Image:
    """Add `weights` [3] × eigenvalues along the principal components of ImageNet's colours."""
    shift = 255 * LIGHTING_VECTORS @ (np.array(weights, np.float32) * LIGHTING_VALUES)
    values = np.arange(256, dtype=np.float32)[:, None] + shift
    return as_uint8(cv2.LUT(image, np.clip(values.round(), 0, 255).astype(np.uint8)[None]))


@edit("policy")
def auto_augment(image: Image, seed: int) -> Image:
    """Apply torchvision's AutoAugment with the ImageNet policy; its draws depend on `seed` only."""
    import torch  # imported here: only this edit needs torch

    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        edited = _make_policy()(pixels)
    return np.ascontiguousarray(edited.permute(1, 2, 0).numpy())


@lru_cache(maxsize=1)
def _make_policy() -> Any:
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy

    return AutoAugment(AutoAugmentPolicy.IMAGENET)


def _draw_crop(rng: np.random.Generator, intensity: float) -> Parameters:
    ratio = float(np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3))))
    return {"area": rng.uniform(0.08, 1), "ratio": ratio, "x": rng.random(), "y": rng.random()}


def _draw_weights(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"weights": rng.normal(0, 0.1, 3).tolist()}


NEAR_ONE = between(0.7, 1.3)
JITTER = drawn(brightness=NEAR_ONE, contrast=NEAR_ONE, saturation=NEAR_ONE)
CROP_AND_FLIP: Sequence[Edit] = (
    Edit("resized_crop", resized_crop, always(1.0), _draw_crop),
    Edit("hflip", hflip, always(0.5), drawn()),
)
MULTIGRAIN_FULL: Sequence[Edit] = (
    *CROP_AND_FLIP,
    Edit("color_jitter", color_jitter, always(1.0), JITTER),
    Edit("pca_lighting", pca_lighting, always(1.0), _draw_weights),
)
AUTO_AUGMENT: Sequence[Edit] = (
    *CROP_AND_FLIP,
    Edit("auto_augment", auto_augment, always(1.0), drawn(seed=seed)),
)
