"""The query edits of the ISC2021 paper: order, probabilities and parameters at intensity I."""

import math
from collections.abc import Sequence

import numpy as np

from ..edits import colour, geometry, overlays, quality
from ..edits.registry import TUNED_SIDE
from .row import (
    ANY_COLOUR,
    PLACE,
    Edit,
    Parameters,
    always,
    between,
    drawn,
    grown,
    mostly_full,
    one_of,
    rising,
    seed,
    up_to,
    whole,
)

GLYPHS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"))
CAPTION_WORDS = (
    "when", "you", "see", "the", "same", "picture", "again", "nobody", "me", "Monday", "wow", "that", "moment", "ok", "LOL",
)  # fmt: skip


def _draw_color_jitter(rng: np.random.Generator, intensity: float) -> Parameters:
    def near_one() -> float:
        return float((1 - intensity) + intensity * rng.uniform(0.25, 1.75))

    saturation = (1 - intensity) + intensity * (0.2 + math.exp(5 * rng.random()) / 6)
    return {"brightness": near_one(), "contrast": near_one(), "saturation": saturation}


def _draw_perspective(rng: np.random.Generator, intensity: float) -> Parameters:
    shifts = rng.normal(0, 30 * intensity / TUNED_SIDE, (4, 2))
    return {"corner_shifts": shifts.tolist(), "crop_border": bool(rng.random() < 0.5)}


def _draw_crop(rng: np.random.Generator, intensity: float) -> Parameters:
    x1, y1 = rng.choice([0, 1 / 16, 1 / 8, 1 / 4], 2).tolist()
    x2, y2 = rng.choice([3 / 4, 7 / 8, 15 / 16, 1], 2).tolist()
    return {"x1": x1, "y1": y1, "x2": x2, "y2": y2}


def _draw_pad(rng: np.random.Generator, intensity: float) -> Parameters:
    width, height = (0.1 * intensity * rng.random(2)).tolist()
    return {"width_share": width, "height_share": height, "colour": ANY_COLOUR(rng, intensity)}


def draw_sentence(rng: np.random.Generator, intensity: float) -> str:
    """Draw a caption of two to five words."""
    return " ".join(rng.choice(CAPTION_WORDS, rng.integers(2, 6)))


def _draw_invert(rng: np.random.Generator, intensity: float) -> Parameters:
    red, green, blue = (rng.random(3) < 0.5).tolist()
    return {"red": red, "green": green, "blue": blue}


def _draw_swap(rng: np.random.Generator, intensity: float) -> Parameters:
    order = rng.permutation(3) if rng.random() < 0.75 else rng.integers(0, 3, 3)
    return {"order": order.tolist()}


def _draw_shift(rng: np.random.Generator, intensity: float) -> Parameters:
    down, right = rng.uniform(-0.05, 0.05, 2).tolist()
    return {"down": down, "right": right}


def _draw_emoji(rng: np.random.Generator, intensity: float) -> Parameters:
    opacity = min(1.0, 0.2 + rng.random())
    size = min(1.0, 0.05 + rng.random())
    emoji = int(rng.integers(10_000))
    return {"emoji": emoji, "opacity": opacity, "size": size, "x": rng.random(), "y": rng.random()}


def _draw_letters(rng: np.random.Generator, intensity: float) -> str:
    return "".join(rng.choice(GLYPHS, rng.integers(5, 11)))


def _draw_caption_height(rng: np.random.Generator, intensity: float) -> float:
    return rng.uniform(20, 145) / TUNED_SIDE


NUMBER = whole(0, 10_000)  # of a font, an emoji or a template, modulo their count
OVERLAY_ON_TOP = drawn(opacity=mostly_full(0.2), size=between(0.1, 0.7), x=PLACE, y=PLACE)
ONTO_OVERLAY = drawn(opacity=mostly_full(0.4), size=between(0.4, 0.8), x=PLACE, y=PLACE)
STRIPES = drawn(
    width=between(0.05, 0.25),
    degrees=between(0, 180),
    density=between(0, 0.8),
    line=one_of("solid", "dotted", "dashed"),
    opacity=mostly_full(0.1),
    colour=ANY_COLOUR,
)
TEXT = drawn(
    text=_draw_letters,
    font=NUMBER,
    size=lambda rng, i: float(rng.choice([0.1, 0.15, 0.25, 0.3, 0.4])),
    colour=ANY_COLOUR,
    opacity=mostly_full(0.2),
    x=between(0, 0.6),
    y=between(0, 0.9),
)
MEME = drawn(
    text=draw_sentence, font=NUMBER, caption=_draw_caption_height, background=ANY_COLOUR, colour=ANY_COLOUR
)
AFTER_COLOUR_LOSS = ("grayscale", "onto_screenshot")
QUERY_TABLE: Sequence[Edit] = (
    Edit("scale", geometry.scale, always(0.10), drawn(factor=between(0.6, 1))),
    Edit("rotate", geometry.rotate, rising(0.10), drawn(degrees=grown(0, 360))),
    Edit("perspective", geometry.perspective, rising(0.10), _draw_perspective),
    Edit(
        "encoding_quality",
        quality.encoding_quality,
        always(0.10),
        lambda rng, i: {"quality": max(1, round(i * rng.uniform(10, 50)))},
    ),
    Edit("color_jitter", colour.color_jitter, always(0.20), _draw_color_jitter),
    Edit("grayscale", colour.grayscale, rising(0.10), drawn()),
    Edit("opacity", colour.opacity, rising(0.05), drawn(level=between(0.6, 1))),
    Edit("crop", geometry.crop, rising(0.10), _draw_crop, not_after=("perspective",)),
    Edit(
        "pad",
        geometry.pad,
        rising(0.05),
        _draw_pad,
        alternative=(geometry.pad_to_square, drawn(colour=ANY_COLOUR)),
        not_after=("perspective",),
    ),
    Edit(
        "overlay_image",
        overlays.overlay_image,
        rising(0.10),
        OVERLAY_ON_TOP,
        alternative=(overlays.overlay_onto_image, ONTO_OVERLAY),
        not_after=("perspective",),
    ),
    Edit(
        "blur_or_sharpen",
        quality.blur,
        rising(0.10),
        drawn(radius=grown(1.1, 4.1)),
        alternative=(quality.sharpen, drawn(factor=up_to(50, 1))),
    ),
    Edit(
        "shuffle_pixels",
        quality.shuffle_pixels,
        always(0.10),
        drawn(share=up_to(0.2), seed=seed),
    ),
    Edit("overlay_stripes", overlays.overlay_stripes, rising(0.10), STRIPES),
    Edit(
        "overlay_emoji",
        overlays.overlay_emoji,
        rising(0.10),
        _draw_emoji,
    ),
    Edit("overlay_text", overlays.overlay_text, rising(0.10), TEXT),
    Edit(
        "pixelization",
        quality.pixelization,
        rising(0.10),
        drawn(ratio=lambda rng, i: float(rng.choice([0.125, 0.25, 0.5, 0.75]))),
    ),
    Edit("hflip", geometry.hflip, always(0.50), drawn()),
    Edit("vflip", geometry.vflip, always(0.10), drawn()),
    Edit("meme_format", overlays.meme_format, rising(0.10), MEME, not_after=("overlay_image",)),
    Edit(
        "onto_screenshot",
        overlays.onto_screenshot,
        rising(0.05),
        drawn(template=NUMBER),
        not_after=("overlay_image", "perspective"),
    ),
    Edit(
        "invert_channels", colour.invert_channels, rising(0.05), _draw_invert, not_after=AFTER_COLOUR_LOSS
    ),
    Edit("swap_channels", colour.swap_channels, rising(0.05), _draw_swap, not_after=AFTER_COLOUR_LOSS),
    Edit("shift_channels", colour.shift_channels, rising(0.05), _draw_shift, not_after=AFTER_COLOUR_LOSS),
)
REFERENCE_TABLE: Sequence[Edit] = (
    Edit("hflip", geometry.hflip, always(0.50), drawn()),
    Edit(
        "encoding_quality",
        quality.encoding_quality,
        always(1.0),
        drawn(quality=whole(40, 101)),
    ),
)
