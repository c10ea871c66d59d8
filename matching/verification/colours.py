"""Whether one of two copies has lost its colours, as a grey copy of a coloured one has, or has other tones than the other."""

import cv2
import numpy as np
from numpy.typing import NDArray

from .alignment import Aligned, match_tones, warp
from .blocks import Grey
from .edits import MIN_DIFFERENCE, Fields

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


def lay_colours(aligned: Aligned, query: Pixels, reference: Pixels) -> tuple[Grey, Grey]:
    """Return brightness and colours of query and reference [h, w, 3] as they were aligned, in one frame [3, h, w]."""
    fixed, moving = (query, reference) if aligned.swapped else (reference, query)
    size = aligned.moving.shape[::-1]
    reduced = np.asarray(cv2.resize(moving, size, interpolation=cv2.INTER_AREA), np.uint8)
    laid = [warp(channel, aligned.homography, aligned.fixed.shape) for channel in split_colours(reduced)]
    frame = split_colours(fixed)
    return (frame, np.stack(laid)) if aligned.swapped else (np.stack(laid), frame)


def compare_colours(query: Grey, reference: Grey, inside: NDArray[np.bool_]) -> Fields:
    """Return which of two copies has lost its colours, and whether their tones differ.

    Args:
        query: Brightness and colours of the query [3, h, w] (`lay_colours`).
        reference: Those of the reference, in the same frame.
        inside: Where both are seen [h, w].
    """
    shared = _reduce(inside.astype(np.float32)) > 0.99
    if not shared.any():
        return {}
    shown = [[_reduce(channel) for channel in channels] for channels in (query, reference)]
    known = shared & (np.abs(match_tones(shown[0][0], shown[1][0], shared) - shown[1][0]) < MIN_DIFFERENCE)
    own, other = (_measure_colours(channels, known if known.any() else shared) for channels in shown)
    lost = [many > MIN_COLOURS and few < MAX_LEFT * many for few, many in ((own, other), (other, own))]
    apart = not any(lost) and _have_other_tones(shown[0], shown[1], shared)
    return {"discoloured": lost, "recoloured": (apart, apart)}


def _reduce(channel: Grey) -> Grey:
    return np.asarray(cv2.resize(channel, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.float32)


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


def split_colours(pixels: Pixels) -> Grey:
    """Return brightness and the two channels of colour [3, h, w]."""
    return np.ascontiguousarray(np.moveaxis(cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb), 2, 0), np.float32)
