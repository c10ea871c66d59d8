"""What was done to one of two copies, in plain words; which of the two it is, they leave open."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .alignment import Aligned
from .detail import MAX_ANISOTROPY, MAX_TILT, measure_angle, measure_anisotropy
from .edits import Comparison
from .geometry import map_pixels

MAX_SHOWN = 0.98  # share of a picture below which the other one was cropped
MIN_BRIGHTER = 4.0  # levels by which the mean brightness differs
# words of edits beside which the rest need not be the same
ADDED = {"framed", "captioned or covered in part"}
TONES = {"a negative", "without its colours", "brighter", "other tones or colours"}


def list_edits(
    found: Comparison, aligned: Aligned, query: tuple[int, ...], reference: tuple[int, ...]
) -> list[str]:
    """Return what tells two copies apart, in words; nothing of size and compression.

    Args:
        found: The comparison of the two.
        aligned: The two in one frame.
        query: Height and width of one of them when it was aligned.
        reference: Those of the other one.
    """
    homography = map_pixels(found.homography, query, reference)
    sides = found.query, found.reference
    seen = min(aligned.covered.mean(), aligned.seen.mean())
    said = ["framed"] if any(side.framed for side in sides) else []
    if not said and any(side.cropped for side in sides) and seen < MAX_SHOWN:
        said.append(f"cropped to {100 * seen:.0f} %")
    said += _describe_map(homography)
    if aligned.negative:
        said.append("a negative")
    if any(side.covered for side in sides):
        said.append("captioned or covered in part")
    if aligned.negative or not ADDED.isdisjoint(said):  # what was added may have any tones
        return said
    if any(side.discoloured for side in sides):
        said.append("without its colours")
    elif any(side.recoloured for side in sides):
        apart = (aligned.fixed - aligned.warped)[aligned.inside].mean()
        said.append("brighter" if abs(apart) > MIN_BRIGHTER else "other tones or colours")
    return said


def describe_edits(said: Sequence[str]) -> str:
    """Return what tells two copies apart as a phrase, such as "cropped to 80 %, brighter, otherwise the same"."""
    if not said:
        return "the same picture"
    return ", ".join(said if not ADDED.isdisjoint(said) else [*said, "otherwise the same"])


def _describe_map(homography: NDArray[np.float64]) -> list[str]:
    linear = homography[:2, :2] / homography[2, 2]
    mirrored = bool(np.linalg.det(linear) < 0)
    linear = linear @ np.diag([-1.0, 1.0]) if mirrored else linear
    angle = abs(measure_angle(linear))
    upside_down = mirrored and angle > 180 - MAX_TILT
    return (
        ["flipped upside down" if upside_down else "mirrored"] * mirrored
        + [f"turned by {angle:.0f}°"] * (angle > MAX_TILT and not upside_down)
        + ["stretched"] * (measure_anisotropy(linear) > MAX_ANISOTROPY)
    )
