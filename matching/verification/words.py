"""What was done to one of two copies, in plain words; which of the two it is, they leave open."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .alignment import find_covered, invert
from .colours import compare_colours, lay_colours, reduce_colours
from .detail import MAX_ANISOTROPY, MAX_TILT, measure_angle, measure_anisotropy
from .edits import Comparison
from .geometry import map_pixels

Pixels = NDArray[np.uint8]
MAX_SHOWN = 0.98  # share of a picture below which the other one was cropped
MIN_BRIGHTER = 4.0  # levels by which the mean brightness differs
# words of edits beside which the rest need not be the same
ADDED = {"framed", "captioned or covered in part"}
TONES = {"a negative", "without its colours", "brighter", "other tones or colours"}


def list_edits(found: Comparison, query: Pixels, reference: Pixels, negative: bool) -> list[str]:
    """Return what tells two copies apart, in words; nothing of size and compression.

    Args:
        found: The comparison of the two.
        query: One of them, uint8 [h, w, 3], RGB, reduced.
        reference: The other one, likewise.
        negative: Whether one of them is a negative of the other.
    """
    homography = map_pixels(found.homography, query.shape, reference.shape)
    sides = found.query, found.reference
    seen = (
        float(find_covered(query.shape, homography, reference.shape).mean()),
        float(find_covered(reference.shape, invert(homography), query.shape).mean()),
    )
    said = ["framed"] if any(side.framed for side in sides) else []
    if not said and any(side.cropped for side in sides) and min(seen) < MAX_SHOWN:
        said.append(f"cropped to {100 * min(seen):.0f} %")
    said += _describe_map(homography)
    if negative:
        said.append("a negative")
    if any(side.covered for side in sides):
        said.append("captioned or covered in part")
    if negative or not ADDED.isdisjoint(said):  # what was added may have any tones
        return said
    return said + _describe_tones(found, reduce_colours(query), reduce_colours(reference))


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


def _describe_tones(found: Comparison, query: Pixels, reference: Pixels) -> list[str]:
    coloured = compare_colours(found.homography, query, reference)
    if any(coloured.get("discoloured", ())):
        return ["without its colours"]
    if not any(coloured.get("recoloured", ())):
        return []
    (one, other), shared = lay_colours(found.homography, query, reference)
    apart = abs(float((one[0] - other[0])[shared].mean()))
    return ["brighter" if apart > MIN_BRIGHTER else "other tones or colours"]
