"""Edits that recipes don't learn unless they ask for the table "broad": choices are made on queries edited with them, too.

They belong to families that no other table has (warp, art, noise, cover), so that `queries.left_out` can name them.
Every edit becomes both more probable and harder with the intensity.
"""

from collections.abc import Sequence

import numpy as np

from image_copies.augmentations.edits import art, geometry, overlays, quality
from image_copies.augmentations.tables.row import Edit, Parameters, rising


def _draw_lens(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"strength": intensity * rng.uniform(-0.35, 0.9)}


def _draw_wave(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"amplitude": 0.08 * intensity * rng.random(), "periods": rng.uniform(0.5, 4), "upright": bool(rng.random() < 0.5)}


def _draw_shear(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"share": intensity * rng.uniform(-0.45, 0.45)}


def _draw_solarize(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"threshold": round(256 - 180 * intensity * rng.random())}


def _draw_halftone(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"period": rng.uniform(6, 20), "degrees": rng.uniform(0, 90), "strength": 0.9 * intensity * rng.random()}


def _draw_sketch(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"radius": rng.uniform(2, 12), "strength": intensity * rng.random()}


def _draw_grain(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"deviation": 60 * intensity * rng.random(), "size": rng.uniform(1, 5), "seed": int(rng.integers(2**31))}


def _draw_motion(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"length": 40 * intensity * rng.random(), "degrees": rng.uniform(0, 180)}


def _draw_boxes(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "share": 0.25 * intensity * rng.random(),
        "count": int(rng.integers(1, 4)),
        "shade": int(rng.choice([0, 128, 255])),
        "seed": int(rng.integers(2**31)),
    }


def _draw_scribble(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "width": 0.05 * intensity * rng.random(),
        "strokes": int(rng.integers(2, 7)),
        "colour": [int(channel) for channel in rng.integers(0, 256, 3)],
        "seed": int(rng.integers(2**31)),
    }


FURTHER_TABLE: Sequence[Edit] = (
    Edit("lens", geometry.lens, rising(0.2), _draw_lens),
    Edit("wave", geometry.wave, rising(0.2), _draw_wave),
    Edit("shear", geometry.shear, rising(0.2), _draw_shear),
    Edit("solarize", art.solarize, rising(0.1), _draw_solarize),
    Edit("halftone", art.halftone, rising(0.15), _draw_halftone),
    Edit("sketch", art.sketch, rising(0.15), _draw_sketch),
    Edit("grain", quality.grain, rising(0.2), _draw_grain),
    Edit("motion_blur", quality.motion_blur, rising(0.2), _draw_motion),
    Edit("hide_boxes", overlays.hide_boxes, rising(0.2), _draw_boxes),
    Edit("scribble", overlays.scribble, rising(0.2), _draw_scribble),
)
