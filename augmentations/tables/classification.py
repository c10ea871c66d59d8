"""Augmentations for image classification: MultiGrain's `full` set, AutoAugment's ImageNet policy and IDEAL's crop and flip.

The intensity has no effect on them.
"""

from collections.abc import Sequence

import numpy as np

from ..edits import colour, geometry
from .row import Edit, Parameters, always, between, drawn, seed

CROPPED_SIDE = 224 / 256  # of each side: IDEAL squeezes a picture to 256 × 256 and crops that


def _draw_crop(rng: np.random.Generator, intensity: float) -> Parameters:
    ratio = float(np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3))))
    return {"area": rng.uniform(0.08, 1), "ratio": ratio, "x": rng.random(), "y": rng.random()}


def _draw_fixed_crop(rng: np.random.Generator, intensity: float) -> Parameters:
    left, top = ((1 - CROPPED_SIDE) * rng.random(2)).tolist()
    return {"x1": left, "y1": top, "x2": left + CROPPED_SIDE, "y2": top + CROPPED_SIDE}


def _draw_weights(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"weights": rng.normal(0, 0.1, 3).tolist()}


NEAR_ONE = between(0.7, 1.3)
JITTER = drawn(brightness=NEAR_ONE, contrast=NEAR_ONE, saturation=NEAR_ONE)
CROP_AND_FLIP: Sequence[Edit] = (
    Edit("resized_crop", geometry.resized_crop, always(1.0), _draw_crop),
    Edit("hflip", geometry.hflip, always(0.5), drawn()),
)
MULTIGRAIN_FULL: Sequence[Edit] = (
    *CROP_AND_FLIP,
    Edit("color_jitter", colour.color_jitter, always(1.0), JITTER),
    Edit("pca_lighting", colour.pca_lighting, always(1.0), _draw_weights),
)
IDEAL_CROP_AND_FLIP: Sequence[Edit] = (  # IDEAL, section 5.1
    Edit("crop", geometry.crop, always(1.0), _draw_fixed_crop),
    Edit("hflip", geometry.hflip, always(0.5), drawn()),
)
AUTO_AUGMENT: Sequence[Edit] = (
    *CROP_AND_FLIP,
    Edit("auto_augment", colour.auto_augment, always(1.0), drawn(seed=seed)),
)
