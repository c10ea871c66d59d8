"""What of two pictures in one frame counts as other colours and other tones."""

import numpy as np
import pytest

from image_copies.matching.verification.differences import compare_colours, shows_other_colours

INSIDE = np.ones((96, 96), bool)


def draw_frame() -> np.ndarray:
    """Brightness and colours [3, 96, 96] of a plain ground and four stripes of other tones."""
    frame = np.full((3, 96, 96), 128, np.float32)
    for number, colours in enumerate([(60, 168, 88), (100, 90, 170), (160, 150, 150), (200, 100, 100)]):
        frame[:, :, 56 + 10 * number : 66 + 10 * number] = np.reshape(colours, (3, 1, 1))
    return frame


@pytest.mark.parametrize("strength", [1.0, 0.5, 2.0, -1.0])
def test_stronger_weaker_and_negated_colours_are_no_other_ones(strength: float) -> None:
    frame = draw_frame()
    other = frame.copy()
    other[1:] = 128 + strength * (frame[1:] - 128)
    assert not shows_other_colours(frame, other, INSIDE)
    other[1:, 20:50, 66:76] = 128 - strength * (frame[1:, 20:50, 66:76] - 128)  # a lamp of another colour
    assert shows_other_colours(frame, other, INSIDE)


@pytest.mark.parametrize(("levels", "apart"), [(0, False), (3, False), (6, True)])
def test_a_tone_of_some_pixels_that_differs_is_another_one(levels: int, apart: bool) -> None:
    frame = draw_frame()
    other = frame.copy()
    other[0, :, :16] += levels  # a sixth of the frame, all of one tone
    frame[0, :, :16] = other[0, :, :16] - levels
    frame[1, :, :16] = other[1, :, :16] = 40
    assert compare_colours(frame, other, INSIDE)["recoloured"] == (apart, apart)
