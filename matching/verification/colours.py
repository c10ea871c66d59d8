"""Whether one of two copies has lost its colours, as a grey copy of a coloured one has, or has other tones than the other."""

import cv2
import numpy as np
from numpy.typing import NDArray

from .alignment import Homography, find_covered, match_tones, warp
from .blocks import Grey
from .edits import MIN_DIFFERENCE, Fields
from .geometry import map_pixels

Pixels = NDArray[np.uint8]
SIDE = 128  # pixels of the square in which colours are compared
MIN_COLOURS = 6.0  # levels of colour by which a coloured picture varies
MAX_LEFT = 0.25  # share of them by which one varies at most that has lost its colours
TINT_STEP = 8  # levels of brightness within which a tint has one colour
BLUR = 2.0  # standard deviation in pixels of the square: only tones are compared
MAX_APART = 1.0  # levels by which most of the pixels of copies with the same tones differ
TONE_STEP = 32  # levels of brightness and of each colour channel that count as one tone
MIN_TONE_SHARE = 0.02  # of the pixels that have a tone, from which it is compared
# levels by which most of the pixels of one tone differ: of a thing before a plain background, too
MAX_TONE_APART = 4.0


def reduce_colours(pixels: Pixels) -> Pixels:
    """Return a picture [h, w, 3] as the square [SIDE, SIDE, 3] that `compare_colours` takes."""
    return np.asarray(cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def compare_colours(homography: Homography, query: Pixels, reference: Pixels) -> Fields:
    """Return which of two copies has lost its colours, and whether their tones differ; the map is that of a `Comparison`."""
    shown, shared = lay_colours(homography, query, reference)
    if not shared.any():
        return {}
    known = shared & (np.abs(match_tones(shown[0][0], shown[1][0], shared) - shown[1][0]) < MIN_DIFFERENCE)
    own, other = (_measure_colours(channels, known if known.any() else shared) for channels in shown)
    lost = [many > MIN_COLOURS and few < MAX_LEFT * many for few, many in ((own, other), (other, own))]
    apart = not any(lost) and _have_other_tones(*shown, shared)
    return {"discoloured": lost, "recoloured": (apart, apart)}


def lay_colours(
    homography: Homography, query: Pixels, reference: Pixels
) -> tuple[tuple[list[Grey], list[Grey]], NDArray[np.bool_]]:
    """Return brightness and colours [h, w] of two squares, the first laid on the second, and where both are seen."""
    onto = map_pixels(homography, query.shape, reference.shape)
    laid = [warp(channel, onto, reference.shape) for channel in split_colours(query)]
    return (laid, split_colours(reference)), find_covered(query.shape, onto, reference.shape) > 0.5


def _measure_colours(channels: list[Grey], shared: NDArray[np.bool_]) -> float:
    """Return how much the colours of a picture vary, but for what follows from its brightness, as a tint does."""
    brightness, *colours = (channel[shared].astype(np.float64) for channel in channels)
    tones = np.clip(brightness / TINT_STEP, 0, 255 // TINT_STEP).astype(np.int64)
    counts = np.maximum(np.bincount(tones), 1)
    return sum(float((colour - (np.bincount(tones, colour) / counts)[tones]).std()) for colour in colours)


def _have_other_tones(one: list[Grey], other: list[Grey], shared: NDArray[np.bool_]) -> bool:
    """Whether most of the pixels of two pictures differ, or of those that have one tone; whatever is laid over a part of them."""
    smooth = [
        np.stack([cv2.GaussianBlur(channel, (0, 0), BLUR)[shared] for channel in channels])
        for channels in (one, other)
    ]
    difference = np.abs(smooth[0] - smooth[1])  # [3, n]
    if np.median(difference, axis=1).max() > MAX_APART:
        return True
    levels = 256 // TONE_STEP
    for channels in smooth:
        brightness, red, blue = np.clip(channels // TONE_STEP, 0, levels - 1).astype(np.int64)
        tones = (brightness * levels + red) * levels + blue
        counts = np.bincount(tones)
        for tone in np.flatnonzero(counts > MIN_TONE_SHARE * len(tones)):
            if np.median(difference[:, tones == tone], axis=1).max() > MAX_TONE_APART:
                return True
    return False


def split_colours(pixels: Pixels) -> list[Grey]:
    """Return brightness and the two channels of colour."""
    return [
        np.asarray(channel, np.float32) for channel in cv2.split(cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb))
    ]
