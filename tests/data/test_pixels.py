import cv2
import numpy as np
import pytest

from image_copies.data.decode import as_uint8


def test_pixels_are_returned_unchanged_and_undecodable_bytes_are_an_error() -> None:
    pixels = np.zeros((2, 2, 3), np.uint8)
    assert as_uint8(pixels) is pixels
    with pytest.raises(ValueError, match="cannot decode"):
        as_uint8(cv2.imdecode(np.arange(20, dtype=np.uint8), cv2.IMREAD_COLOR_RGB))
