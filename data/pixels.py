"""What OpenCV's types leave out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_uint8(pixels: NDArray[Any] | None) -> NDArray[np.uint8]:
    """Return `pixels` unchanged, typed as the uint8 that they are: OpenCV's functions keep it, but their types do not say so.

    Raises:
        ValueError: None, OpenCV's answer to bytes that it cannot decode.
    """
    if pixels is None:
        raise ValueError("OpenCV cannot decode these bytes as an image")
    return pixels
