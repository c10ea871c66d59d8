"""Edits beyond the paper: those that the challenge's analysis found hardest, those that are common today, and further ones.

With the intensity, every edit becomes both more probable and stronger. FURTHER_TABLE has edits that recipes learn only if they
ask for the table "broad": choices are made on queries edited with them, too. They belong to families that no other table has
(warp, art, noise, cover), so that `queries.left_out` can name them.
"""

from collections.abc import Sequence

import numpy as np

from ..edits import colour, drawing, geometry, overlays, quality
from .isc2021 import draw_sentence
from .row import (
    ANY_COLOUR,
    PLACE,
    Edit,
    Parameters,
    between,
    coin,
    draw_fill,
    drawn,
    grown,
    one_of,
    rising,
    seed,
    up_to,
    whole,
)


def _draw_severe_crop(rng: np.random.Generator, intensity: float) -> Parameters:
    width, height = 1 - intensity * rng.uniform(0.3, 0.65, 2)
    x, y = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    return {"x1": x, "y1": y, "x2": x + width, "y2": y + height}


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


def _draw_double_compression(rng: np.random.Generator, intensity: float) -> Parameters:
    first, second = (100 - intensity * rng.uniform(40, 90, 2)).round().astype(int).tolist()
    return {"factor": 1 - 0.6 * intensity * rng.random(), "first": first, "second": second}


def _draw_letterbox(rng: np.random.Generator, intensity: float) -> Parameters:
    longer, other = (1 + intensity * rng.random(2) * [1.0, 0.4]).tolist()
    size = {"width": longer, "height": other} if rng.random() < 0.5 else {"width": other, "height": longer}
    return {**size, "colour": draw_fill(rng, intensity) if rng.random() < 0.6 else None}


EXTRA_TABLE: Sequence[Edit] = (
    Edit("photo_filter", colour.photo_filter, rising(0.15), _draw_filter),
    Edit("severe_crop", geometry.crop, rising(0.12), _draw_severe_crop, not_after=("crop", "perspective")),
    Edit(
        "sticker",
        overlays.sticker,
        rising(0.08),
        drawn(size=up_to(0.4, 0.15), x=between(0, 0.8), y=between(0, 0.8), seed=seed),
    ),
    Edit(
        "watermark",
        overlays.watermark,
        rising(0.06),
        drawn(
            text=draw_sentence,
            font=whole(0, 10_000),
            opacity=up_to(0.6, 0.2),
            size=between(0.06, 0.15),
            degrees=between(-45, 45),
        ),
    ),
    Edit("border", overlays.border, rising(0.08), _draw_border),
    Edit(
        "collage",
        overlays.collage,
        rising(0.05),
        drawn(side_by_side=coin, first=coin, share=up_to(0.35, 0.2)),
        not_after=("overlay_image", "severe_crop"),
    ),
    Edit(
        "hide_inside",
        overlays.overlay_onto_image,
        rising(0.10),
        drawn(opacity=lambda rng, intensity: 1.0, size=up_to(-0.5, 0.8), x=PLACE, y=PLACE),
        not_after=("overlay_image", "severe_crop", "collage", "onto_screenshot", "meme_format"),
    ),
    Edit(
        "moire",
        quality.moire,
        rising(0.05),
        drawn(period=between(6, 40), degrees=between(0, 180), strength=up_to(0.35)),
    ),
    Edit("double_compression", quality.double_compression, rising(0.10), _draw_double_compression),
    Edit(
        "rotate_whole",
        geometry.rotate_whole,
        rising(0.06),
        drawn(degrees=grown(-180, 180), colour=draw_fill),
        not_after=("rotate",),
    ),
    Edit("letterbox", geometry.letterbox, rising(0.06), _draw_letterbox, not_after=("pad", "border")),
)


FURTHER_TABLE: Sequence[Edit] = (
    Edit("lens", geometry.lens, rising(0.2), drawn(strength=grown(-0.35, 0.9))),
    Edit(
        "wave",
        geometry.wave,
        rising(0.2),
        drawn(amplitude=up_to(0.08), periods=between(0.5, 4), upright=coin),
    ),
    Edit("shear", geometry.shear, rising(0.2), drawn(share=grown(-0.45, 0.45))),
    Edit(
        "solarize",
        drawing.solarize,
        rising(0.1),
        lambda rng, intensity: {"threshold": round(256 - 180 * intensity * rng.random())},
    ),
    Edit(
        "halftone",
        drawing.halftone,
        rising(0.15),
        drawn(period=between(6, 20), degrees=between(0, 90), strength=up_to(0.9)),
    ),
    Edit("sketch", drawing.sketch, rising(0.15), drawn(radius=between(2, 12), strength=up_to(1))),
    Edit("grain", quality.grain, rising(0.2), drawn(deviation=up_to(60), size=between(1, 5), seed=seed)),
    Edit("motion_blur", quality.motion_blur, rising(0.2), drawn(length=up_to(40), degrees=between(0, 180))),
    Edit(
        "hide_boxes",
        overlays.hide_boxes,
        rising(0.2),
        drawn(share=up_to(0.25), count=whole(1, 4), shade=one_of(0, 128, 255), seed=seed),
    ),
    Edit(
        "scribble",
        overlays.scribble,
        rising(0.2),
        drawn(width=up_to(0.05), strokes=whole(2, 7), colour=ANY_COLOUR, seed=seed),
    ),
)
