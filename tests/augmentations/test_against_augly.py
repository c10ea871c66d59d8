"""Our edits' pixels against the plain AugLy edit at the same resolution, within a stated mean absolute difference (of 255)."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from plain_augly import augly_calls

from image_copies.augmentations.edits.registry import FUNCTIONS
from image_copies.augmentations.tables.isc2021 import QUERY_TABLE
from image_copies.data.procedural import draw_picture

PICTURE = cv2.GaussianBlur(cv2.resize(draw_picture(np.random.default_rng([4, 2]), 384), (512, 384)), (0, 0), 1.0)
OTHER = draw_picture(np.random.default_rng([4, 9]), 300)
COVER = {"opacity": 0.7, "size": 0.4, "x": 0.3, "y": 0.2}
CASES = [
    ("scale", {"factor": 0.7}, 1.5),
    ("hflip", {}, 0),
    ("vflip", {}, 0),
    ("rotate", {"degrees": 33.0}, 3),
    ("rotate", {"degrees": 200.0}, 3),
    ("crop", {"x1": 0.125, "y1": 0.25, "x2": 0.75, "y2": 1.0}, 0),
    ("pad", {"width_share": 0.0625, "height_share": 0.03125, "colour": [10, 200, 30]}, 0),
    ("pad_to_square", {"colour": [10, 200, 30]}, 0),
    ("color_jitter", {"brightness": 0.8, "contrast": 1.4, "saturation": 2.5}, 2.5),
    ("color_jitter", {"brightness": 1.3, "contrast": 0.6, "saturation": 0.3}, 2.5),
    ("grayscale", {}, 1),
    ("opacity", {"level": 0.7}, 1),
    ("encoding_quality", {"quality": 20}, 1),
    ("blur", {"radius": 3.0}, 1),
    ("sharpen", {"factor": 12.0}, 1),
    ("pixelization", {"ratio": 0.25}, 4),
    ("overlay_stripes", {"width": 0.2, "degrees": 40, "density": 0.7, "line": "dashed", "opacity": 0.8, "colour": [9, 9, 9]}, 1),
    (
        "overlay_stripes",
        {"width": 0.1, "degrees": 120, "density": 0.3, "line": "dotted", "opacity": 0.4, "colour": [255, 9, 9]},
        1,
    ),
    ("overlay_emoji", {"emoji": 77} | COVER, 1),
    ("overlay_image", {"overlay": OTHER} | COVER, 1.5),
    ("overlay_onto_image", {"background": OTHER} | COVER | {"x": 0.0, "y": 0.0}, 4),
]


@pytest.fixture
def theirs() -> dict[str, Callable[..., Image.Image]]:
    """AugLy's edits by the names of ours."""
    return augly_calls()


@pytest.mark.parametrize(("name", "parameters", "tolerance"), CASES, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(CASES)])
def test_pixels_are_those_of_augly(
    theirs: dict[str, Callable[..., Image.Image]], name: str, parameters: dict[str, Any], tolerance: float
) -> None:
    ours = FUNCTIONS[name](PICTURE, **parameters)
    theirs_parameters = {key: Image.fromarray(v) if isinstance(v, np.ndarray) else v for key, v in parameters.items()}
    if name == "overlay_emoji":
        theirs_parameters["emoji_"] = theirs_parameters.pop("emoji")
    edited = np.asarray(theirs[name](Image.fromarray(PICTURE), **theirs_parameters).convert("RGB"))
    assert abs(ours.shape[0] - edited.shape[0]) <= 1 and abs(ours.shape[1] - edited.shape[1]) <= 1
    sized = cv2.resize(ours, edited.shape[1::-1]) if ours.shape != edited.shape else ours
    difference = np.abs(sized.astype(int) - edited.astype(int)).mean()
    assert difference <= tolerance
    assert edited.shape != PICTURE.shape or np.abs(edited.astype(int) - PICTURE).mean() > 0.4  # the edit changes the picture


def test_every_edit_of_the_table_is_compared_or_named() -> None:
    """Text, shuffled pixels and screenshots draw their own randomness or layout; the rest is not AugLy's."""
    compared = {name for name, *_ in CASES} | {"overlay_text", "shuffle_pixels", "onto_screenshot"}
    ours = {"perspective", "meme_format", "invert_channels", "swap_channels", "shift_channels"}
    assert {function.__name__ for edit in QUERY_TABLE for function in edit.functions} <= compared | ours


def test_a_share_of_the_pixels_is_shuffled() -> None:
    first = FUNCTIONS["shuffle_pixels"](PICTURE, share=0.2, seed=5)
    assert 0.1 < (first != PICTURE).any(axis=2).mean() <= 0.2
    assert sorted(map(tuple, first.reshape(-1, 3).tolist())) == sorted(map(tuple, PICTURE.reshape(-1, 3).tolist()))
