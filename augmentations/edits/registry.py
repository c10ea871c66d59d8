"""The registry of edit functions: the names by which records on disk refer to them.

An edit function takes an RGB image uint8 [h, w, 3] and JSON-serialisable parameters and returns another image; it never
changes its input and makes no random draws of its own. To add one, decorate it with `@edit` (or `@pasting_edit`) and give it a
row in a table.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
EditFunction = Callable[..., Image]
AnyEdit = TypeVar("AnyEdit", bound=EditFunction)

TUNED_SIDE = 384  # pixels; the authors' edits were tuned on images of 384 × 384, so lengths scale with it
FUNCTIONS: dict[str, EditFunction] = {}
OTHER_IMAGE: dict[str, str] = {}  # name of a pasting edit → its parameter that receives the other image


def edit(function: AnyEdit) -> AnyEdit:
    """Register an edit under its function's name, which must never change: existing records refer to it.

    Raises:
        ValueError: another edit is registered under this name.
    """
    if function.__name__ in FUNCTIONS:
        raise ValueError(f"there are two edits named {function.__name__}")
    FUNCTIONS[function.__name__] = function
    return function


def pasting_edit(parameter: str) -> Callable[[AnyEdit], AnyEdit]:
    """Register an edit that pastes another image; records contain that image's id under `parameter`."""

    def register(function: AnyEdit) -> AnyEdit:
        OTHER_IMAGE[function.__name__] = parameter
        return edit(function)

    return register
