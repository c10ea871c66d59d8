"""The registry of edit functions: the names by which records on disk refer to them, the family that each belongs to; their parts.

An edit function takes an RGB image uint8 [h, w, 3] and JSON-serialisable parameters and returns another image; it never
changes its input and makes no random draws. To add one, decorate it with `@edit(family)` (or `@pasting_edit`)
and give it a row in a table.
"""

from collections.abc import Callable
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.data.arrays import Float32s, UInt8s
from image_copies.data.decode import as_uint8

from ..settings import EditFamily

Image = UInt8s
EditFunction = Callable[..., Image]
AnyEdit = TypeVar("AnyEdit", bound=EditFunction)

TUNED_SIDE = 384  # pixels; the authors' edits were tuned on images of 384 × 384, so lengths scale with it
FUNCTIONS: dict[str, EditFunction] = {}
FAMILY_OF: dict[str, EditFamily] = {}  # name of an edit → its family
OTHER_IMAGE: dict[str, str] = {}  # name of a pasting edit → its parameter that receives the other image


def edit(family: EditFamily) -> Callable[[AnyEdit], AnyEdit]:
    """Register an edit of a family under its function's name, which must never change: existing records refer to it.

    Raises:
        ValueError: another edit is registered under this name.
    """

    def register(function: AnyEdit) -> AnyEdit:
        if function.__name__ in FUNCTIONS:
            raise ValueError(f"there are two edits named {function.__name__}")
        FUNCTIONS[function.__name__] = function
        FAMILY_OF[function.__name__] = family
        return function

    return register


def pasting_edit(parameter: str, family: EditFamily = "paste") -> Callable[[AnyEdit], AnyEdit]:
    """Register an edit that pastes another image; records contain that image's id under `parameter`."""

    def register(function: AnyEdit) -> AnyEdit:
        OTHER_IMAGE[function.__name__] = parameter
        return edit(family)(function)

    return register


Field = Float32s


def mix(image: Image, other: Image, strength: float) -> Image:
    """Return the image at `strength` 0, the `other` of the same size at 1."""
    return as_uint8(cv2.addWeighted(image, 1 - strength, other, strength, 0))


def blend_in(image: Image, colour: list[int] | Image, cover: Field) -> Image:
    """Blend a colour, or another image of the same size, in where `cover` float32 [h, w] is above 0, up to 1."""
    weight = cover[..., None]
    blended: Image = np.rint(image + weight * (np.asarray(colour, np.float32) - image)).astype(np.uint8)
    return blended


def scale_length(pixels: float, image: Image, least: float = 1.0) -> float:
    """Return a length that is `pixels` where the image's short side is TUNED_SIDE, at least `least` pixels."""
    short: int = min(image.shape[:2])
    return max(least, pixels * short / TUNED_SIDE)


def grey_of(image: Image) -> Image:
    """Return the luminosity [h, w]."""
    return as_uint8(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))


def coloured(grey: Image) -> Image:
    """Return three equal channels of a grey image [h, w]."""
    return as_uint8(cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB))


def pixel_grid(image: Image) -> tuple[Field, Field]:
    """Return y [h, 1] and x [1, w] in pixels."""
    height, width = image.shape[:2]
    return np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)[None]


def unit_grid(image: Image) -> tuple[Field, Field]:
    """Return y [h, 1] and x [1, w] in −1…1."""
    height, width = image.shape[:2]
    return np.linspace(-1, 1, height, dtype=np.float32)[:, None], np.linspace(
        -1, 1, width, dtype=np.float32
    )[None]


def smooth_noise(image: Image, cells: int, rng: np.random.Generator) -> Field:
    """Return a smooth random field [h, w] of about `cells` hills per side, its mean about 0 and its deviation about 0.7."""
    coarse = rng.standard_normal((cells + 1, cells + 1), np.float32)
    return np.asarray(cv2.resize(coarse, image.shape[1::-1], interpolation=cv2.INTER_CUBIC), np.float32)


def displace(image: Image, x: NDArray[np.floating], y: NDArray[np.floating]) -> Image:
    """Return the image's colours at the places x and y [h, w] in pixels; beyond its edges, its mirror image's."""
    return as_uint8(
        cv2.remap(
            image,
            x.astype(np.float32),
            y.astype(np.float32),
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REFLECT_101,
        )
    )
