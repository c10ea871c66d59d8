"""Whether one of two copies has lost its colours, as a grey copy of a coloured one has, or has other tones than the other."""

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.matching.verification.alignment import find_covered, invert, warp
from image_copies.matching.verification.blocks import Grey
from image_copies.matching.verification.edits import Comparison
from image_copies.matching.verification.geometry import from_shares

Pixels = NDArray[np.uint8]
SIDE = 128  # pixels of the square in which colours are compared
MIN_COLOURS = 3.0  # levels by which the colours of a coloured picture vary
MIN_KEPT = 0.4  # share of the other picture's colours below which a picture has lost them: of sepia, up to 0.3
BLUR = 2.0  # pixels of the square, so that only tones are compared
MAX_APART = 1.0  # levels by which most of the pixels of copies with the same tones differ


def reduce_colours(pixels: Pixels) -> Pixels:
    """Return a picture [h, w, 3] as the square [SIDE, SIDE, 3] that `compare_colours` takes."""
    return np.asarray(cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def compare_colours(comparison: Comparison, query: Pixels, reference: Pixels) -> Comparison:
    """Add to the comparison of two copies which of them has lost its colours, and whether their tones differ."""
    square = from_shares((SIDE, SIDE))
    to_reference = square @ comparison.homography @ invert(square)
    shared = find_covered(query.shape, to_reference, reference.shape) > 0.5
    if not shared.any():
        return comparison
    shown = [warp(channel, to_reference, reference.shape) for channel in _split(query)], _split(reference)
    # a tint changes the means of the colours alone, not how they vary
    own, other = (sum(float(channel[shared].std()) for channel in channels[1:]) for channels in shown)
    lost = other > MIN_COLOURS and own < MIN_KEPT * other, own > MIN_COLOURS and other < MIN_KEPT * own
    apart = not any(lost) and max(_measure_difference(*channels, shared) for channels in zip(*shown, strict=True)) > MAX_APART
    return replace(
        comparison,
        query=replace(comparison.query, discoloured=lost[0], recoloured=apart),
        reference=replace(comparison.reference, discoloured=lost[1], recoloured=apart),
    )


def _measure_difference(one: Grey, other: Grey, shared: NDArray[np.bool_]) -> float:
    """Return by how many levels most of two channels differ, whatever is laid over a part of them."""
    difference = np.abs(cv2.GaussianBlur(one, (0, 0), BLUR) - cv2.GaussianBlur(other, (0, 0), BLUR))
    return float(np.median(difference[shared]))


def _split(pixels: Pixels) -> list[Grey]:
    """Return brightness and the two channels of colour."""
    return [np.asarray(channel, np.float32) for channel in cv2.split(cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb))]
