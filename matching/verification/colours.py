"""Whether one of two copies has lost its colours, as a grey copy of a coloured one has, or has other tones than the other."""

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.matching.verification.alignment import Homography, find_covered, invert, warp
from image_copies.matching.verification.blocks import Grey
from image_copies.matching.verification.edits import Fields
from image_copies.matching.verification.geometry import from_shares

Pixels = NDArray[np.uint8]
SIDE = 128  # pixels of the square in which colours are compared
MIN_COLOURS = 3.0  # levels by which the colours of a coloured picture vary
MIN_KEPT = 0.4  # share of the other picture's colours below which a picture has lost them: of sepia, up to 0.3
BLUR = 2.0  # pixels of the square, so that only tones are compared
MAX_APART = 1.0  # levels by which most of the pixels of copies with the same tones differ
TONE_STEP = 32  # levels of brightness and of each colour channel that count as one tone
MIN_TONE_SHARE = 0.02  # of the pixels that have a tone, from which it is compared
MAX_TONE_APART = 4.0  # levels by which most of the pixels of one tone differ: of a thing before a plain background, too


def reduce_colours(pixels: Pixels) -> Pixels:
    """Return a picture [h, w, 3] as the square [SIDE, SIDE, 3] that `compare_colours` takes."""
    return np.asarray(cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def compare_colours(homography: Homography, query: Pixels, reference: Pixels) -> Fields:
    """Return which of two copies has lost its colours, and whether their tones differ; the map is that of a `Comparison`."""
    square = from_shares((SIDE, SIDE))
    to_reference = square @ homography @ invert(square)
    shared = find_covered(query.shape, to_reference, reference.shape) > 0.5
    if not shared.any():
        return {}
    shown = [warp(channel, to_reference, reference.shape) for channel in _split(query)], _split(reference)
    # a tint changes the means of the colours alone, not how they vary
    own, other = (sum(float(channel[shared].std()) for channel in channels[1:]) for channels in shown)
    lost = other > MIN_COLOURS and own < MIN_KEPT * other, own > MIN_COLOURS and other < MIN_KEPT * own
    apart = not any(lost) and _have_other_tones(*shown, shared)
    return {"discoloured": lost, "recoloured": (apart, apart)}


def _have_other_tones(one: list[Grey], other: list[Grey], shared: NDArray[np.bool_]) -> bool:
    """Whether most of the pixels of two pictures differ, or of those that have one tone; whatever is laid over a part of them."""
    smooth = [np.stack([cv2.GaussianBlur(channel, (0, 0), BLUR)[shared] for channel in channels]) for channels in (one, other)]
    difference = np.abs(smooth[0] - smooth[1])  # [3, n]
    if np.median(difference, axis=1).max() > MAX_APART:
        return True
    for channels in smooth:
        _, members, counts = np.unique(channels // TONE_STEP, axis=1, return_inverse=True, return_counts=True)
        for tone in np.flatnonzero(counts > MIN_TONE_SHARE * channels.shape[1]):
            if np.median(difference[:, members.ravel() == tone], axis=1).max() > MAX_TONE_APART:
                return True
    return False


def _split(pixels: Pixels) -> list[Grey]:
    """Return brightness and the two channels of colour."""
    return [np.asarray(channel, np.float32) for channel in cv2.split(cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb))]
