"""One of two pictures laid on the other, in colour, with what differs in red and framed: for a person to look at."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from image_copies.data.arrays import Float32s, UInt8s
from image_copies.data.decode import decode_rgb
from image_copies.data.squares import shrink

from . import alignment, edits, geometry, judgement, registration
from .differences import CLEAR_EXCESS, measure_differences
from .picture import Picture

SHOWN_SIDE = 1000  # pixels of the frame's longer side, at most
PALE = 0.35  # strength of a picture's own colours outside the other one, and under the red of differences
FAINT, STRONG = 1.2, 3.0  # excess of a difference (`differences.py`) from which red begins, and is full
JOINED = 31  # pixels within which differences share a frame
RED = (214, 40, 40)

Pixels = UInt8s


@dataclass(frozen=True)
class Overlay:
    """Two pictures in the frame of the one that shows more or else has more pixels, else of the first; each uint8 [h, w, 3], RGB.

    Attributes:
        frame: Which of the two gives the frame, 0 or 1.
        under: That one.
        laid: The other one warped onto it; where it has no pixels, those of `under`, paled.
        differences: `under`, paled, with what differs by more than tones, sharpness and compression in red, framed.
        frames: Number of frames.
    """

    frame: int
    under: Pixels
    laid: Pixels
    differences: Pixels
    frames: int


def lay_on_each_other(first: Path, second: Path) -> Overlay | None:
    """Lay one of two pictures on the other; None where nothing says how.

    Raises:
        ImageError: One of them cannot be read.
    """
    pictures = [shrink(decode_rgb(path, SHOWN_SIDE), SHOWN_SIDE) for path in (first, second)]
    found = registration.register(Picture(first), Picture(second))
    if found is None or (found.inliers < geometry.MIN_INLIERS and found.median < judgement.OTHER_MEDIAN):
        return None
    aligned = found.aligned
    fixed = 0 if found.aligned.swapped else 1
    to_fixed = aligned.homography @ alignment.map_resized(aligned.moving.shape, pictures[1 - fixed].shape)
    to_shown = alignment.map_resized(pictures[fixed].shape, aligned.fixed.shape) @ to_fixed
    # by how much the one that gives the alignment's frame shows more
    more = aligned.seen.mean() - aligned.covered.mean()
    larger = int(pictures[0].size < pictures[1].size)
    frame = larger if abs(more) <= 1 - judgement.MAX_SHOWN else fixed if more > 0 else 1 - fixed
    under, other = pictures[frame], pictures[1 - frame]
    size = under.shape[1], under.shape[0]
    onto = to_shown if frame == fixed else alignment.invert(to_shown)
    warped = cv2.warpPerspective(other, onto, size, flags=cv2.INTER_LINEAR)
    covered = alignment.find_covered(other.shape, onto, under.shape)[..., None] > 0.5
    back = (
        alignment.invert(to_fixed)
        if frame != fixed
        else alignment.map_resized(pictures[fixed].shape, aligned.fixed.shape)
    )
    apart = edits.find_differing(aligned) | edits.find_clearly_differing(aligned)
    measured = np.maximum(measure_differences(aligned, spots=False), STRONG * apart)
    excess = cv2.warpPerspective(measured, back, size, flags=cv2.INTER_LINEAR)
    differences, frames = _draw_differences(under, np.asarray(excess, np.float32))
    return Overlay(frame, under, np.where(covered, warped, _pale(under)), differences, frames)


def _pale(picture: Pixels) -> Pixels:
    return np.asarray(PALE * picture + (1 - PALE) * 235, np.uint8)


def _draw_differences(picture: Pixels, excess: Float32s) -> tuple[Pixels, int]:
    """Return a picture, paled, with what differs in red, each part framed; and the number of frames."""
    red = np.clip((excess - FAINT) / (STRONG - FAINT), 0, 1)[..., None]
    drawn = np.asarray((1 - red) * _pale(picture) + red * np.array(RED), np.uint8)
    differing = (excess > CLEAR_EXCESS).astype(np.uint8)
    near = cv2.dilate(differing, np.ones((JOINED, JOINED), np.uint8))
    count, joined, boxes, _ = cv2.connectedComponentsWithStats(near)
    for part, (left, top, width, height, _) in enumerate(boxes[1:].tolist(), 1):
        inside = slice(top, top + height), slice(left, left + width)
        x, y, width, height = cv2.boundingRect(differing[inside] * (joined[inside] == part))
        left, top = left + x, top + y
        cv2.rectangle(drawn, (left, top), (left + width - 1, top + height - 1), RED, 3)
    return drawn, count - 1
