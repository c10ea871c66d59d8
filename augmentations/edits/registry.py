"""The registry of edit functions: the names by which records on disk refer to them, and the family that each belongs to.

An edit function takes an RGB image uint8 [h, w, 3] and JSON-serialisable parameters and returns another image; it never
changes its input and makes no random draws. To add one, decorate it with `@edit(family)` (or `@pasting_edit`)
and give it a row in a table.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from image_copies.augmentations.settings import EditFamily

Image = NDArray[np.uint8]
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
        FUNCTIONS[function.__name__], FAMILY_OF[function.__name__] = function, family
        return function

    return register


def pasting_edit(parameter: str, family: EditFamily = "paste") -> Callable[[AnyEdit], AnyEdit]:
    """Register an edit that pastes another image; records contain that image's id under `parameter`."""

    def register(function: AnyEdit) -> AnyEdit:
        OTHER_IMAGE[function.__name__] = parameter
        return edit(family)(function)

    return register
