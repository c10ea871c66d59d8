"""Which of two copies was edited: what was laid over it or added around it, and what is missing from it.

What is laid over a picture or added around it ends in an edge that the other picture does not have: along the outline of what
differs, and along the frame of the other picture, the edited one has the stronger edges.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from image_copies.data.arrays import Bools

from .alignment import Grey, Homography, find_covered, invert, map_resized, warp
from .geometry import from_shares
from .registration import MIN_COVERED, Registration

MIN_DIFFERENCE = 24.0  # grey levels by which a pixel differs
# grey levels by which it differs clearly: what a change of contrast cuts off differs by less
CLEAR_DIFFERENCE = 80.0
USUAL_DIFFERENCES = 6.0  # multiples of the usual difference by which it differs, too
MAX_COVERED = 0.4  # share of the pixels that something laid over a copy covers, at most
CLOSED = 7  # pixels of gaps in what differs that are closed
STRONGER_EDGES = 1.25  # factor by which the edges of one picture are stronger along the outline
MIN_MARGIN = 0.01  # share of a side that one picture shows beyond the other
STRIP = 12  # pixels on either side of the other picture's frame that are looked at
SEAM_REACH = 2  # pixels by which the frame may be misplaced
MOST = 0.7  # share of a side, or of what lies along it
SAME_TONE = 6.0  # grey levels within which pixels have one tone
MIN_UNIFORM = 0.9  # share of a border that has one tone
FULL = 0.95  # share of a side beyond which the other picture shows something


Fields = dict[str, Sequence[Any]]  # of Comparison by name, each of query and reference
Sides = tuple[bool, bool]
ONE, OTHER = 0, 1  # the query, the reference
NEITHER = False, False


@dataclass(frozen=True)
class Comparison:
    """What two copies look like beside each other, of the query and of the reference.

    Attributes:
        homography: From the query's pixels to the reference's, as shares 0…1 of width and height [3, 3].
        covered: Something is laid over it, such as a caption or a sticker; of both where nothing says over which.
        framed: Something is added around it, such as a border or a bar.
        cropped: The other one shows more.
        blurred: It is less sharp than the other one.
        enlarged: It has more pixels, and no more detail.
        stretched: Its aspect ratio was changed; of both where nothing says of which.
        turned: It was mirrored or turned; of both where nothing says which.
        discoloured: It has lost the colours that the other one has.
        recoloured: Its tones or colours are not those of the other one; of both where nothing says whose were changed.
        density: Pixels per length, of those of the other one.
        new_detail: Size in grey levels of detail that the other one cannot have had (`detail.py`); 0 for none that is sure.
        step: Mean step of its compression, 1 for none; None where it is not known.
        compressed: It is what the other one gives when scaled and compressed; looked at where nothing else tells the two apart.
        differing: How far their most differing part exceeds what is usual in them (`differences.py`).
    """

    homography: Homography
    covered: Sides = NEITHER
    framed: Sides = NEITHER
    cropped: Sides = NEITHER
    blurred: Sides = NEITHER
    enlarged: Sides = NEITHER
    stretched: Sides = NEITHER
    turned: Sides = NEITHER
    discoloured: Sides = NEITHER
    recoloured: Sides = NEITHER
    density: tuple[float, float] = 1.0, 1.0
    new_detail: tuple[float, float] = 0.0, 0.0
    step: tuple[float | None, float | None] = None, None
    compressed: Sides = NEITHER
    differing: float = 0.0

    def list_changes(self, side: int) -> list[str]:
        """Return what was done to one of them, in words, but for what only took from it."""
        known = {
            "has something laid over it": self.covered,
            "has something added around it": self.framed,
            "was enlarged": self.enlarged,
            "was stretched": self.stretched,
            "was mirrored or turned": self.turned,
            "has lost its colours": self.discoloured,
            "has other tones or colours": self.recoloured,
        }
        return [words for words, done in known.items() if done[side]]

    def add(self, seen: Fields) -> "Comparison":
        """Return the same with what a detector has seen."""
        sides: dict[str, Any] = {name: tuple(of) for name, of in seen.items()}
        return replace(self, **sides)

    def exchange(self) -> "Comparison":
        """Return the same with query and reference exchanged."""
        sides: dict[str, Any] = {name: of[::-1] for name, of in vars(self).items() if isinstance(of, tuple)}
        return replace(self, homography=invert(self.homography), **sides)


def compare_edits(aligned: Registration, query: tuple[int, ...], reference: tuple[int, ...]) -> Comparison:
    """Compare two copies that were laid on each other.

    Args:
        aligned: The two in one frame.
        query: Height and width of the query when it was aligned.
        reference: Height and width of the reference when it was aligned.
    """
    # of the frame, and of the other one
    shapes = (query, reference) if aligned.swapped else (reference, query)
    to_frame = aligned.homography @ map_resized(aligned.moving.shape, shapes[1])
    shares = invert(from_shares(shapes[0])) @ to_frame @ from_shares(shapes[1])
    covered, other_covered = find_covered_side(aligned)
    framed, other_cropped = _look_beyond(aligned.fixed, aligned.moving.shape, aligned.homography)
    other_framed, cropped = _look_beyond(aligned.moving, aligned.fixed.shape, invert(aligned.homography))
    blur, other_blur = aligned.blurs
    found = Comparison(
        shares,
        covered=(other_covered, covered),
        framed=(other_framed, framed),
        cropped=(other_cropped, cropped),
        blurred=(blur > 0, other_blur > 0),  # to look alike, the sharper one is blurred
    )
    return found.exchange() if aligned.swapped else found


def find_covered_side(aligned: Registration) -> tuple[bool, bool]:
    """Return whether something may be laid over the picture that gives the frame, and over the other one."""
    inside, differing = aligned.inside, find_differing(aligned)
    if not MIN_COVERED * inside.sum() < differing.sum() < MAX_COVERED * inside.sum():
        return False, False
    outline = differing & (cv2.erode(differing.astype(np.uint8), np.ones((3, 3), np.uint8)) == 0)
    own, other = (_compare_edges(picture, outline, inside & ~differing) for picture in aligned.alike)
    return bool(STRONGER_EDGES * own > other), bool(STRONGER_EDGES * other > own)


def find_differing(aligned: Registration) -> Bools:
    """Return where two pictures [h, w] differ by more than pictures displaced by a pixel do, whichever has the other's tones."""
    # tones that a change of contrast has cut off are not unlike each other: a difference shows whichever is matched
    differing = np.logical_and.reduce([differ_by(*pair, aligned.inside) for pair in aligned.toned])
    # without what is thinner than two pixels, as noise is, and without gaps
    opened = cv2.morphologyEx(differing.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
    return cv2.morphologyEx(opened, cv2.MORPH_CLOSE, np.ones((CLOSED, CLOSED), np.uint8)).astype(bool)


def find_clearly_differing(aligned: Registration) -> Bools:
    """Return where [h, w] solid parts differ by more than a change of contrast does, whichever has the other's tones."""
    differing = np.logical_or.reduce(
        [differ_by(*pair, aligned.inside, CLEAR_DIFFERENCE) for pair in aligned.toned]
    )
    return cv2.morphologyEx(
        differing.astype(np.uint8), cv2.MORPH_OPEN, np.ones((CLOSED, CLOSED), np.uint8)
    ).astype(bool)


def _compare_edges(picture: Grey, outline: Bools, elsewhere: Bools) -> float:
    """Return how much stronger the edges along an outline are than elsewhere."""
    slopes = cv2.Sobel(picture, cv2.CV_32F, 1, 0), cv2.Sobel(picture, cv2.CV_32F, 0, 1)
    edges = cv2.dilate(np.hypot(*slopes), np.ones((5, 5), np.uint8))
    return float(edges[outline].mean() / max(edges[elsewhere].mean(), 1.0))


def differ_by(one: Grey, other: Grey, inside: Bools, by: float = MIN_DIFFERENCE) -> Bools:
    """Return where two pictures [h, w] differ by so many grey levels, and by more than pictures displaced by a pixel do."""
    if not inside.any():
        return inside
    around = np.ones((3, 3), np.uint8)
    sides = (one, other), (other, one)
    difference = np.max(
        [np.maximum(a - cv2.dilate(b, around), cv2.erode(b, around) - a) for a, b in sides], axis=0
    )
    usual = float(np.median(np.abs(one - other)[inside]))
    found: Bools = (difference > max(by, USUAL_DIFFERENCES * usual)) & inside
    return found


def _look_beyond(picture: Grey, other: tuple[int, ...], homography: Homography) -> tuple[bool, bool]:
    """Look at what a picture shows beyond the frame of another one.

    Args:
        picture: Grey values [h, w].
        other: Height and width of the other one.
        homography: From the other's pixels to the picture's [3, 3].

    Returns:
        Whether that was added around the picture, and whether the other one was cropped.
    """
    to_other = np.array([[1, 0, STRIP], [0, 1, STRIP], [0, 0, 1]], np.float64) @ invert(homography)
    frame = other[0] + 2 * STRIP, other[1] + 2 * STRIP
    seen = warp(picture, to_other, frame, cv2.INTER_LINEAR)
    shown = find_covered(picture.shape, to_other, frame)
    added = []
    for turn in range(4):  # left, top, right, bottom
        side, there = (np.rot90(each, turn)[STRIP:-STRIP, : 2 * STRIP] for each in (seen, shown))
        margin = max(SEAM_REACH + 1, round(MIN_MARGIN * other[1 - turn % 2]))
        if there[:, STRIP - min(margin, STRIP)].mean() >= FULL:
            added.append(_is_added(side))
    framed = 2 * sum(added) > len(added)
    # one side alone may end at an edge of the scene
    return framed, bool(added) and (not framed or len(added) == 1)


def _is_added(side: Grey) -> bool:
    """Whether a picture [rows, 2 · STRIP] has one tone in the first STRIP columns, and others beside them."""
    outside = side[:, SEAM_REACH : STRIP - SEAM_REACH]
    tone = np.median(outside)
    uniform = np.abs(outside - tone) < SAME_TONE
    other_tone = np.abs(side[:, STRIP + SEAM_REACH] - tone) > SAME_TONE
    return bool(uniform.mean() > MIN_UNIFORM and other_tone.mean() > MOST)
