"""Static types for OpenCV's results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_uint8(pixels: NDArray[Any] | None) -> NDArray[np.uint8]:
    """Return `pixels` [h, w, …] unchanged, typed as uint8: OpenCV's functions preserve the dtype, but their annotations do not.

    Raises:
        ValueError: `pixels` is None, which OpenCV returns for bytes that it cannot decode.
    """
    if pixels is None:
        raise ValueError("OpenCV cannot decode these bytes as an image")
    return pixels
