"""Whether a part of two aligned copies differs: what compression, scaling and noise leave differs as much elsewhere."""

import itertools

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.matching.verification.alignment import Aligned
from image_copies.matching.verification.blocks import Grey
from image_copies.matching.verification.edits import match_tones

WINDOW = 9  # pixels of the windows in which differences and detail are measured
COARSE = 16.0  # pixels: differences wider than this are those of tones
EDGE = 9  # pixels along the frame that are left out
STEPS = 12  # parts of a picture, by how much detail they show, in which usual differences are found
USUAL = 0.75  # share of a part's windows that differ by less than the usual difference
NOISE = 4.0  # squared grey levels that count for nothing
MIN_PIXELS = 1000  # that both pictures must show


def find_local_difference(aligned: Aligned) -> float:
    """Return how far the most differing window exceeds what is usual where as much detail is seen, as the logarithm of a ratio.

    Copies reach 1.8, whatever their compression, size or colours; another name in a form or a face that was blurred 2 to 8.
    A window differs if it does so with the tones as they are, and with those of either picture given to the other.
    """
    return max(0.0, float(measure_differences(aligned).max()))


def measure_differences(aligned: Aligned) -> Grey:
    """Return the same for the window of each pixel of the frame [h, w]; 0 along its edges and where only one picture is seen."""
    fixed, warped = aligned.blurred()
    inside = cv2.erode(aligned.covered, np.ones((EDGE, EDGE), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0.0) > 0.5
    if inside.sum() < MIN_PIXELS:
        return np.zeros_like(fixed)
    matched = ((fixed, match_tones(warped, fixed, inside)), (match_tones(fixed, warped, inside), warped), (fixed, warped))
    excess = np.min([_measure_excess(one, other, inside) for one, other in matched], axis=0)
    return np.where(inside, excess, 0).astype(np.float32)


def _measure_excess(one: Grey, other: Grey, inside: NDArray[np.bool_]) -> Grey:
    """Return for each pixel's window the logarithm of its difference over the usual one."""
    difference = _remove_coarse(one - other, inside)
    found = np.log(_mean(difference * difference) + NOISE)
    detail = cv2.dilate(np.log(np.maximum(_vary(one), _vary(other)) + 1), np.ones((5, 5), np.uint8))
    limits = np.quantile(detail[inside], np.linspace(0, 1, STEPS + 1))
    parts = [inside & (detail >= low) & (detail <= high) for low, high in itertools.pairwise(limits)]
    known = [(float(np.median(detail[part])), float(np.quantile(found[part], USUAL))) for part in parts]
    usual = np.maximum.accumulate([value for _, value in known])
    return np.asarray(found - np.interp(detail, [place for place, _ in known], usual), np.float32)


def _remove_coarse(difference: Grey, inside: NDArray[np.bool_]) -> Grey:
    shown = np.where(inside, difference, 0).astype(np.float32)
    share = cv2.GaussianBlur(inside.astype(np.float32), (0, 0), COARSE)
    coarse = cv2.GaussianBlur(shown, (0, 0), COARSE) / np.maximum(share, 1e-3)
    return np.where(inside, shown - coarse, 0).astype(np.float32)


def _vary(picture: Grey) -> Grey:
    """Return the variance in each pixel's window."""
    mean = _mean(picture)
    return np.maximum(_mean(picture * picture) - mean * mean, 0)


def _mean(values: Grey) -> Grey:
    return np.asarray(cv2.boxFilter(values, cv2.CV_32F, (WINDOW, WINDOW)), np.float32)
