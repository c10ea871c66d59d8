"""The registry of edit functions: the names by which records on disk refer to them.

An edit function takes an image [h, w, 3] uint8 RGB and JSON-able parameters and returns another image; it never changes its
input and draws nothing by itself. To add one, decorate it with `@edit` (or `@pasting_edit`) and give it a row in a table.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
EditFunction = Callable[..., Image]
AnyEdit = TypeVar("AnyEdit", bound=EditFunction)

TUNED_SIDE = 384  # pixels; the competition's edits were tuned on images of 384 × 384, lengths are shares of it
FUNCTIONS: dict[str, EditFunction] = {}
OTHER_IMAGE: dict[str, str] = {}  # name of a pasting edit → its parameter that receives the other image


def edit(function: AnyEdit) -> AnyEdit:
    """Register an edit under its own name, which must stay: records made before refer to it.

    Raises:
        ValueError: another edit has this name.
    """
    if function.__name__ in FUNCTIONS:
        raise ValueError(f"there are two edits named {function.__name__}")
    FUNCTIONS[function.__name__] = function
    return function


def pasting_edit(parameter: str) -> Callable[[AnyEdit], AnyEdit]:
    """Register an edit that pastes another image; records hold that image's id under `parameter`."""

    def register(function: AnyEdit) -> AnyEdit:
        OTHER_IMAGE[function.__name__] = parameter
        return edit(function)

    return register
