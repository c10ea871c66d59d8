"""The query edits of the ISC2021 paper: order, probabilities and parameters at intensity I, u = uniform(0, 1)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Parameters = dict[str, Any]
Draw = Callable[[np.random.Generator, float], Parameters]
LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"))
LINES = ("solid", "dotted", "dashed")
TUNED_SIDE = 384  # the competition edited images of 384 × 384 pixels
WORDS = ("when", "you", "see", "the", "same", "picture", "again", "nobody", "me", "Monday", "wow", "that", "moment", "ok", "LOL")


@dataclass(frozen=True)
class Edit:
    """One row of the table: a function of augmentations.edits, its probability at I, its parameters, what excludes it.

    needs_overlay: "overlay" or "background" names the parameter that receives another image's id.
    """

    name: str
    function: str
    probability: Callable[[float], float]
    draw: Draw
    not_after: tuple[str, ...] = ()
    needs_overlay: str | None = None


def _always(share: float) -> Callable[[float], float]:
    return lambda intensity: share


def _times(share: float) -> Callable[[float], float]:
    return lambda intensity: share * intensity


def _colour(rng: np.random.Generator) -> list[int]:
    return [int(channel) for channel in rng.integers(0, 256, 3)]


def _color_jitter(rng: np.random.Generator, intensity: float) -> Parameters:
    def near_one() -> float:
        return float((1 - intensity) + intensity * rng.uniform(0.25, 1.75))

    saturation = (1 - intensity) + intensity * (0.2 + math.exp(5 * rng.random()) / 6)
    return {"brightness": near_one(), "contrast": near_one(), "saturation": saturation}


def _perspective(rng: np.random.Generator, intensity: float) -> Parameters:
    shifts = rng.normal(0, 30 * intensity / TUNED_SIDE, (4, 2))
    return {"corner_shifts": shifts.tolist(), "crop_border": bool(rng.random() < 0.5)}


def _crop(rng: np.random.Generator, intensity: float) -> Parameters:
    x1, y1 = rng.choice([0, 1 / 16, 1 / 8, 1 / 4], 2).tolist()
    x2, y2 = rng.choice([3 / 4, 7 / 8, 15 / 16, 1], 2).tolist()
    return {"x1": x1, "y1": y1, "x2": x2, "y2": y2}


def _pad(rng: np.random.Generator, intensity: float) -> Parameters:
    width, height = (0.1 * intensity * rng.random(2)).tolist()
    return {"width_share": width, "height_share": height, "colour": _colour(rng)}


def _overlay_on_top(rng: np.random.Generator, intensity: float) -> Parameters:
    opacity, size = min(1.0, 0.2 + rng.random()), rng.uniform(0.1, 0.7)
    return {"opacity": opacity, "size": size, "x": rng.random(), "y": rng.random()}


def _onto_overlay(rng: np.random.Generator, intensity: float) -> Parameters:
    opacity, size = min(1.0, 0.4 + rng.random()), rng.uniform(0.4, 0.8)
    return {"opacity": opacity, "size": size, "x": rng.random(), "y": rng.random()}


def _stripes(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "width": rng.uniform(0.05, 0.25),
        "degrees": rng.uniform(0, 180),
        "density": rng.uniform(0, 0.8),
        "line": LINES[rng.integers(3)],
        "opacity": min(1.0, 0.1 + rng.random()),
        "colour": _colour(rng),
    }


def _emoji(rng: np.random.Generator, intensity: float) -> Parameters:
    opacity, size = min(1.0, 0.2 + rng.random()), min(1.0, 0.05 + rng.random())
    return {"emoji": int(rng.integers(10_000)), "opacity": opacity, "size": size, "x": rng.random(), "y": rng.random()}


def _text(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "text": "".join(rng.choice(LETTERS, rng.integers(5, 11))),
        "font": int(rng.integers(10_000)),
        "size": float(rng.choice([0.1, 0.15, 0.25, 0.3, 0.4])),
        "colour": _colour(rng),
        "opacity": min(1.0, 0.2 + rng.random()),
        "x": rng.uniform(0, 0.6),
        "y": rng.uniform(0, 0.9),
    }


def sentence(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, rng.integers(2, 6)))


def _meme(rng: np.random.Generator, intensity: float) -> Parameters:
    return {
        "text": sentence(rng),
        "font": int(rng.integers(10_000)),
        "caption": rng.uniform(20, 145) / TUNED_SIDE,
        "background": _colour(rng),
        "colour": _colour(rng),
    }


def _invert(rng: np.random.Generator, intensity: float) -> Parameters:
    red, green, blue = (rng.random(3) < 0.5).tolist()
    return {"red": red, "green": green, "blue": blue}


def _swap(rng: np.random.Generator, intensity: float) -> Parameters:
    order = rng.permutation(3) if rng.random() < 0.75 else rng.integers(0, 3, 3)
    return {"order": order.tolist()}


def _shift(rng: np.random.Generator, intensity: float) -> Parameters:
    down, right = rng.uniform(-0.05, 0.05, 2).tolist()
    return {"down": down, "right": right}


def _either(first: tuple[str, Draw], second: tuple[str, Draw]) -> Draw:
    """Even odds between two functions; the parameters name the one that was drawn."""

    def draw(rng: np.random.Generator, intensity: float) -> Parameters:
        function, parameters = first if rng.random() < 0.5 else second
        return {"function": function} | parameters(rng, intensity)

    return draw


AFTER_COLOUR_LOSS = ("grayscale", "onto_screenshot")
TABLE: Sequence[Edit] = (
    Edit("scale", "scale", _always(0.10), lambda rng, i: {"factor": rng.uniform(0.6, 1)}),
    Edit("rotate", "rotate", _times(0.10), lambda rng, i: {"degrees": i * rng.uniform(0, 360)}),
    Edit("perspective", "perspective", _times(0.10), _perspective),
    Edit(
        "encoding_quality", "encoding_quality", _always(0.10), lambda rng, i: {"quality": max(1, round(i * rng.uniform(10, 50)))}
    ),
    Edit("color_jitter", "color_jitter", _always(0.20), _color_jitter),
    Edit("grayscale", "grayscale", _times(0.10), lambda rng, i: {}),
    Edit("opacity", "opacity", _times(0.05), lambda rng, i: {"level": rng.uniform(0.6, 1)}),
    Edit("crop", "crop", _times(0.10), _crop, not_after=("perspective",)),
    Edit(
        "pad",
        "pad",
        _times(0.05),
        _either(("pad", _pad), ("pad_to_square", lambda rng, i: {"colour": _colour(rng)})),
        not_after=("perspective",),
    ),
    Edit(
        "overlay_image",
        "overlay_image",
        _times(0.10),
        _either(("overlay_image", _overlay_on_top), ("overlay_onto_image", _onto_overlay)),
        not_after=("perspective",),
        needs_overlay="overlay",
    ),
    Edit(
        "blur_or_sharpen",
        "blur",
        _times(0.10),
        _either(
            ("blur", lambda rng, i: {"radius": i * rng.uniform(1.1, 4.1)}),
            ("sharpen", lambda rng, i: {"factor": 1 + 50 * i * rng.random()}),
        ),
    ),
    Edit(
        "shuffle_pixels",
        "shuffle_pixels",
        _always(0.10),
        lambda rng, i: {"share": 0.2 * i * rng.random(), "seed": int(rng.integers(2**31))},
    ),
    Edit("overlay_stripes", "overlay_stripes", _times(0.10), _stripes),
    Edit("overlay_emoji", "overlay_emoji", _times(0.10), _emoji),
    Edit("overlay_text", "overlay_text", _times(0.10), _text),
    Edit("pixelization", "pixelization", _times(0.10), lambda rng, i: {"ratio": float(rng.choice([0.125, 0.25, 0.5, 0.75]))}),
    Edit("hflip", "hflip", _always(0.50), lambda rng, i: {}),
    Edit("vflip", "vflip", _always(0.10), lambda rng, i: {}),
    Edit("meme_format", "meme_format", _times(0.10), _meme, not_after=("overlay_image",)),
    Edit(
        "onto_screenshot",
        "onto_screenshot",
        _times(0.05),
        lambda rng, i: {"template": int(rng.integers(10_000))},
        not_after=("overlay_image", "perspective"),
    ),
    Edit("invert_channels", "invert_channels", _times(0.05), _invert, not_after=AFTER_COLOUR_LOSS),
    Edit("swap_channels", "swap_channels", _times(0.05), _swap, not_after=AFTER_COLOUR_LOSS),
    Edit("shift_channels", "shift_channels", _times(0.05), _shift, not_after=AFTER_COLOUR_LOSS),
)
REFERENCE_TABLE: Sequence[Edit] = (
    Edit("hflip", "hflip", _always(0.50), lambda rng, i: {}),
    Edit("encoding_quality", "encoding_quality", _always(1.0), lambda rng, i: {"quality": int(rng.integers(40, 101))}),
)
