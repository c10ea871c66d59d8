"""IDEAL's crop and flip (section 5.1); the intensity has no effect on them."""

from collections.abc import Sequence

import numpy as np

from image_copies.augmentations.edits import geometry
from image_copies.augmentations.tables.row import Edit, Parameters, always, drawn

CROPPED_SIDE = 224 / 256  # of each side: IDEAL squeezes a picture to 256 × 256 and crops that


def _draw_fixed_crop(rng: np.random.Generator, intensity: float) -> Parameters:
    left, top = ((1 - CROPPED_SIDE) * rng.random(2)).tolist()
    return {"x1": left, "y1": top, "x2": left + CROPPED_SIDE, "y2": top + CROPPED_SIDE}


CROP_AND_FLIP: Sequence[Edit] = (
    Edit("crop", geometry.crop, always(1.0), _draw_fixed_crop),
    Edit("hflip", geometry.hflip, always(0.5), drawn()),
)
