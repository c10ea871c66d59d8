"""Whether one of two copies has lost its colours: a grey or nearly grey copy was made of the coloured one."""

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


def reduce_colours(pixels: Pixels) -> Pixels:
    """Return a picture [h, w, 3] as the square [SIDE, SIDE, 3] that `compare_colours` takes."""
    return np.asarray(cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def compare_colours(comparison: Comparison, query: Pixels, reference: Pixels) -> Comparison:
    """Add to the comparison of two copies which of them has lost its colours, where both show the same part."""
    square = from_shares((SIDE, SIDE))
    to_reference = square @ comparison.homography @ invert(square)
    shared = find_covered(query.shape, to_reference, reference.shape) > 0.5
    if not shared.any():
        return comparison
    shown = [warp(channel, to_reference, reference.shape) for channel in _split_chroma(query)], _split_chroma(reference)
    own, other = (sum(float(channel[shared].std()) for channel in channels) for channels in shown)
    return replace(
        comparison,
        query=replace(comparison.query, discoloured=other > MIN_COLOURS and own < MIN_KEPT * other),
        reference=replace(comparison.reference, discoloured=own > MIN_COLOURS and other < MIN_KEPT * own),
    )


def _split_chroma(pixels: Pixels) -> list[Grey]:
    """Return the two channels of colour: a tint of the whole picture changes their means, not how they vary."""
    return [np.asarray(channel, np.float32) for channel in cv2.split(cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb))[1:]]
