"""Edits beyond the paper: those that the challenge's analysis found hardest, those that are common today, and further ones.

With the intensity, every edit becomes both more probable and stronger. FURTHER_TABLE has edits that recipes learn only if they
ask for the table "broad": choices are made on queries edited with them, too. They belong to families that no other table has
(warp, art, noise, cover), so that `queries.left_out` can name them.
"""

from collections.abc import Sequence

import numpy as np

from image_copies.augmentations.edits import colour, drawing, geometry, overlays, quality
from image_copies.augmentations.tables.isc2021 import draw_sentence
from image_copies.augmentations.tables.row import Edit, Parameters, rising


def _draw_severe_crop(rng: np.random.Generator, intensity: float) -> Parameters:
    width, height = 1 - intensity * rng.uniform(0.3, 0.65, 2)
    x, y = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    return {"x1": x, "y1": y, "x2": x + width, "y2": y + height}


def _draw_hide(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "opacity": 1.0,
        "size": 0.8 - 0.5 * intensity * rng.random(),
        "x": rng.random(),
        "y": rng.random(),
    }


def _draw_border(rng: np.random.Generator, intensity: float) -> Parameters:
    shade = int(rng.choice([0, 18, 240, 255]))
    return {
        "width": 0.1 * intensity * rng.random(),
        "colour": [shade] * 3,
        "bar": 0.25 * intensity * rng.random(),
    }


def _draw_filter(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "tint": (1 + intensity * rng.uniform(-0.3, 0.3, 3)).tolist(),
        "gamma": float(np.exp(intensity * rng.uniform(-0.6, 0.6))),
        "fade": 0.25 * intensity * rng.random(),
        "vignette": 0.7 * intensity * rng.random(),
    }


def _draw_watermark(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "text": draw_sentence(rng),
        "font": int(rng.integers(10_000)),
        "opacity": 0.2 + 0.6 * intensity * rng.random(),
        "size": rng.uniform(0.06, 0.15),
        "degrees": rng.uniform(-45, 45),
    }


def _draw_moire(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "period": rng.uniform(6, 40),
        "degrees": rng.uniform(0, 180),
        "strength": 0.35 * intensity * rng.random(),
    }


def _draw_double_compression(rng: np.random.Generator, intensity: float) -> Parameters:
    first, second = (100 - intensity * rng.uniform(40, 90, 2)).round().astype(int).tolist()
    return {"factor": 1 - 0.6 * intensity * rng.random(), "first": first, "second": second}


def _draw_collage(rng: np.random.Generator, intensity: float) -> Parameters:
    side, first = (rng.random(2) < 0.5).tolist()
    return {"side_by_side": side, "first": first, "share": 0.2 + 0.35 * intensity * rng.random()}


def _draw_sticker(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "size": 0.15 + 0.4 * intensity * rng.random(),
        "x": rng.uniform(0, 0.8),
        "y": rng.uniform(0, 0.8),
        "seed": int(rng.integers(2**31)),
    }


def _draw_fill(rng: np.random.Generator) -> list[int]:
    """Black, white or any colour, a third each."""
    any_colour = [int(channel) for channel in rng.integers(0, 256, 3)]
    return [[0, 0, 0], [255, 255, 255], any_colour][rng.integers(3)]


def _draw_turn(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"degrees": intensity * rng.uniform(-180, 180), "colour": _draw_fill(rng)}


def _draw_letterbox(rng: np.random.Generator, intensity: float) -> Parameters:
    longer, other = (1 + intensity * rng.random(2) * [1.0, 0.4]).tolist()
    size = {"width": longer, "height": other} if rng.random() < 0.5 else {"width": other, "height": longer}
    return {**size, "colour": _draw_fill(rng) if rng.random() < 0.6 else None}


EXTRA_TABLE: Sequence[Edit] = (
    Edit("photo_filter", colour.photo_filter, rising(0.15), _draw_filter),
    Edit("severe_crop", geometry.crop, rising(0.12), _draw_severe_crop, not_after=("crop", "perspective")),
    Edit("sticker", overlays.sticker, rising(0.08), _draw_sticker),
    Edit("watermark", overlays.watermark, rising(0.06), _draw_watermark),
    Edit("border", overlays.border, rising(0.08), _draw_border),
    Edit(
        "collage", overlays.collage, rising(0.05), _draw_collage, not_after=("overlay_image", "severe_crop")
    ),
    Edit(
        "hide_inside",
        overlays.overlay_onto_image,
        rising(0.10),
        _draw_hide,
        not_after=("overlay_image", "severe_crop", "collage", "onto_screenshot", "meme_format"),
    ),
    Edit("moire", quality.moire, rising(0.05), _draw_moire),
    Edit("double_compression", quality.double_compression, rising(0.10), _draw_double_compression),
    Edit("rotate_whole", geometry.rotate_whole, rising(0.06), _draw_turn, not_after=("rotate",)),
    Edit("letterbox", geometry.letterbox, rising(0.06), _draw_letterbox, not_after=("pad", "border")),
)


def _draw_lens(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"strength": intensity * rng.uniform(-0.35, 0.9)}


def _draw_wave(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "amplitude": 0.08 * intensity * rng.random(),
        "periods": rng.uniform(0.5, 4),
        "upright": bool(rng.random() < 0.5),
    }


def _draw_shear(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"share": intensity * rng.uniform(-0.45, 0.45)}


def _draw_solarize(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"threshold": round(256 - 180 * intensity * rng.random())}


def _draw_halftone(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "period": rng.uniform(6, 20),
        "degrees": rng.uniform(0, 90),
        "strength": 0.9 * intensity * rng.random(),
    }


def _draw_sketch(rng: np.random.Generator, intensity: float) -> Parameters:
    return {"radius": rng.uniform(2, 12), "strength": intensity * rng.random()}


def _draw_grain(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "deviation": 60 * intensity * rng.random(),
        "size": rng.uniform(1, 5),
        "seed": int(rng.integers(2**31)),
    }


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
    Edit("solarize", drawing.solarize, rising(0.1), _draw_solarize),
    Edit("halftone", drawing.halftone, rising(0.15), _draw_halftone),
    Edit("sketch", drawing.sketch, rising(0.15), _draw_sketch),
    Edit("grain", quality.grain, rising(0.2), _draw_grain),
    Edit("motion_blur", quality.motion_blur, rising(0.2), _draw_motion),
    Edit("hide_boxes", overlays.hide_boxes, rising(0.2), _draw_boxes),
    Edit("scribble", overlays.scribble, rising(0.2), _draw_scribble),
)
