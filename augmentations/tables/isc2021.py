"""The query edits of the ISC2021 paper: order, probabilities and parameters at intensity I."""

import math
from collections.abc import Sequence

import numpy as np

from image_copies.augmentations.edits import colour, geometry, overlays, quality
from image_copies.augmentations.edits.registry import TUNED_SIDE
from image_copies.augmentations.tables.row import Edit, Parameters, always, draw_nothing, rising

GLYPHS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"))
LINE_STYLES = ("solid", "dotted", "dashed")
CAPTION_WORDS = (
    "when", "you", "see", "the", "same", "picture", "again", "nobody", "me", "Monday", "wow", "that", "moment", "ok", "LOL",
)  # fmt: skip


def _draw_colour(rng: np.random.Generator) -> list[int]:
    return [int(channel) for channel in rng.integers(0, 256, 3)]


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
    return {"width_share": width, "height_share": height, "colour": _draw_colour(rng)}


def _draw_overlay_on_top(rng: np.random.Generator, intensity: float) -> Parameters:
    opacity, size = min(1.0, 0.2 + rng.random()), rng.uniform(0.1, 0.7)
    return {"opacity": opacity, "size": size, "x": rng.random(), "y": rng.random()}


def _draw_onto_overlay(rng: np.random.Generator, intensity: float) -> Parameters:
    opacity, size = min(1.0, 0.4 + rng.random()), rng.uniform(0.4, 0.8)
    return {"opacity": opacity, "size": size, "x": rng.random(), "y": rng.random()}


def _draw_stripes(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "width": rng.uniform(0.05, 0.25),
        "degrees": rng.uniform(0, 180),
        "density": rng.uniform(0, 0.8),
        "line": LINE_STYLES[rng.integers(3)],
        "opacity": min(1.0, 0.1 + rng.random()),
        "colour": _draw_colour(rng),
    }


def _draw_emoji(rng: np.random.Generator, intensity: float) -> Parameters:
    opacity, size = min(1.0, 0.2 + rng.random()), min(1.0, 0.05 + rng.random())
    return {
        "emoji": int(rng.integers(10_000)),
        "opacity": opacity,
        "size": size,
        "x": rng.random(),
        "y": rng.random(),
    }


def _draw_text(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "text": "".join(rng.choice(GLYPHS, rng.integers(5, 11))),
        "font": int(rng.integers(10_000)),
        "size": float(rng.choice([0.1, 0.15, 0.25, 0.3, 0.4])),
        "colour": _draw_colour(rng),
        "opacity": min(1.0, 0.2 + rng.random()),
        "x": rng.uniform(0, 0.6),
        "y": rng.uniform(0, 0.9),
    }


def draw_sentence(rng: np.random.Generator) -> str:
    """Draw a caption of two to five words."""
    return " ".join(rng.choice(CAPTION_WORDS, rng.integers(2, 6)))


def _draw_meme(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "text": draw_sentence(rng),
        "font": int(rng.integers(10_000)),
        "caption": rng.uniform(20, 145) / TUNED_SIDE,
        "background": _draw_colour(rng),
        "colour": _draw_colour(rng),
    }


def _draw_invert(rng: np.random.Generator, intensity: float) -> Parameters:
    red, green, blue = (rng.random(3) < 0.5).tolist()
    return {"red": red, "green": green, "blue": blue}


def _draw_swap(rng: np.random.Generator, intensity: float) -> Parameters:
    order = rng.permutation(3) if rng.random() < 0.75 else rng.integers(0, 3, 3)
    return {"order": order.tolist()}


def _draw_shift(rng: np.random.Generator, intensity: float) -> Parameters:
    down, right = rng.uniform(-0.05, 0.05, 2).tolist()
    return {"down": down, "right": right}


AFTER_COLOUR_LOSS = ("grayscale", "onto_screenshot")
QUERY_TABLE: Sequence[Edit] = (
    Edit("scale", geometry.scale, always(0.10), lambda rng, i: {"factor": rng.uniform(0.6, 1)}),
    Edit("rotate", geometry.rotate, rising(0.10), lambda rng, i: {"degrees": i * rng.uniform(0, 360)}),
    Edit("perspective", geometry.perspective, rising(0.10), _draw_perspective),
    Edit(
        "encoding_quality",
        quality.encoding_quality,
        always(0.10),
        lambda rng, i: {"quality": max(1, round(i * rng.uniform(10, 50)))},
    ),
    Edit("color_jitter", colour.color_jitter, always(0.20), _draw_color_jitter),
    Edit("grayscale", colour.grayscale, rising(0.10), draw_nothing),
    Edit("opacity", colour.opacity, rising(0.05), lambda rng, i: {"level": rng.uniform(0.6, 1)}),
    Edit("crop", geometry.crop, rising(0.10), _draw_crop, not_after=("perspective",)),
    Edit(
        "pad",
        geometry.pad,
        rising(0.05),
        _draw_pad,
        alternative=(geometry.pad_to_square, lambda rng, i: {"colour": _draw_colour(rng)}),
        not_after=("perspective",),
    ),
    Edit(
        "overlay_image",
        overlays.overlay_image,
        rising(0.10),
        _draw_overlay_on_top,
        alternative=(overlays.overlay_onto_image, _draw_onto_overlay),
        not_after=("perspective",),
    ),
    Edit(
        "blur_or_sharpen",
        quality.blur,
        rising(0.10),
        lambda rng, i: {"radius": i * rng.uniform(1.1, 4.1)},
        alternative=(quality.sharpen, lambda rng, i: {"factor": 1 + 50 * i * rng.random()}),
    ),
    Edit(
        "shuffle_pixels",
        quality.shuffle_pixels,
        always(0.10),
        lambda rng, i: {"share": 0.2 * i * rng.random(), "seed": int(rng.integers(2**31))},
    ),
    Edit("overlay_stripes", overlays.overlay_stripes, rising(0.10), _draw_stripes),
    Edit("overlay_emoji", overlays.overlay_emoji, rising(0.10), _draw_emoji),
    Edit("overlay_text", overlays.overlay_text, rising(0.10), _draw_text),
    Edit(
        "pixelization",
        quality.pixelization,
        rising(0.10),
        lambda rng, i: {"ratio": float(rng.choice([0.125, 0.25, 0.5, 0.75]))},
    ),
    Edit("hflip", geometry.hflip, always(0.50), draw_nothing),
    Edit("vflip", geometry.vflip, always(0.10), draw_nothing),
    Edit("meme_format", overlays.meme_format, rising(0.10), _draw_meme, not_after=("overlay_image",)),
    Edit(
        "onto_screenshot",
        overlays.onto_screenshot,
        rising(0.05),
        lambda rng, i: {"template": int(rng.integers(10_000))},
        not_after=("overlay_image", "perspective"),
    ),
    Edit("invert_channels", colour.invert_channels, rising(0.05), _draw_invert, not_after=AFTER_COLOUR_LOSS),
    Edit("swap_channels", colour.swap_channels, rising(0.05), _draw_swap, not_after=AFTER_COLOUR_LOSS),
    Edit("shift_channels", colour.shift_channels, rising(0.05), _draw_shift, not_after=AFTER_COLOUR_LOSS),
)
REFERENCE_TABLE: Sequence[Edit] = (
    Edit("hflip", geometry.hflip, always(0.50), draw_nothing),
    Edit(
        "encoding_quality",
        quality.encoding_quality,
        always(1.0),
        lambda rng, i: {"quality": int(rng.integers(40, 101))},
    ),
)
