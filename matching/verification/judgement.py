"""The class of a pair: the same file, certainly a copy, likely one, or another shot of the same scene; its edits in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from image_copies.data.arrays import Float64s

from .alignment import MAX_SIDE
from .detail import MAX_ANISOTROPY, MAX_TILT, measure_angle, measure_anisotropy
from .edits import Comparison
from .geometry import MIN_INLIERS, map_pixels
from .registration import SURE_MEDIAN, Registration

Kind = Literal["same file", "certain", "likely", "same scene", "unrelated"]

MIN_BLOCKS = 12  # blocks that must show something, for their agreement to mean anything
MIN_MEDIAN = 0.85  # median correlation of a certain copy's blocks
OTHER_MEDIAN = 0.5  # median correlation below which the pixels disagree
MAX_CHANGED = 0.25  # share of the blocks that a caption or a sticker may cover
# share of changed blocks that may be found near by: those of repeated patterns are, without having moved
MAX_MOVED = 0.25
MIN_CHANGED = 2  # changed blocks from which something may have moved
MAX_PARALLAX = 0.2  # pixels by which near and far may be displaced against each other in a certain copy
# pixels from which they surely are: below, coarse blocks of blurred copies may seem so
CLEAR_PARALLAX = 0.6
MAX_PERSPECTIVE = 0.12  # pixels: cropping, turning and scaling are affine, another point of view is not
# certainty: of two shots of a scene or reports with one cover of the same pixels, and the highest
APART = 30
MAX_LIKELY = 89
MAX_CERTAIN = 99
# certainty of a likely copy by the descriptor's score alone; if hardly more is known
UNCONFIRMED, BARELY_CONFIRMED = 50, 55
# share of each picture that shows something outside the other: a copy is contained, or contains
MAX_OUTSIDE = 0.0005
# features of a picture with less detail than a pair needs to be confirmed: flat, tiny or blurred
FEW_FEATURES = 100
# expected per query, up to which such a pair needs no confirmation: a thousandth of the default
MAX_FALSE_ALARMS = 1e-6
NOT_CONFIRMED = "not confirmed: similar as a whole; too few details were found in both"
FAR_BEYOND = "similar as a whole, far beyond the threshold; one has too little detail to be confirmed"
AGREE = "the pixels agree"
TOO_LITTLE = "too little detail to be sure"
DETAILS_ALONE = "details fit, but the pixels decide nothing"


@dataclass(frozen=True)
class Judgement:
    """What a pair of pictures is.

    Attributes:
        kind: Its class. "same file": equal bytes, or equal pixels of all frames. "certain": laid on each other, their pixels
            agree. "likely": the descriptor or local features say so, the pixels decide nothing. "same scene": two photographs of
            one thing. "unrelated": nothing says that they have anything in common.
        reason: Why, in words, the figures in brackets after them.
        certainty: How sure it is that one is a copy of the other, 0…100. It orders pairs; it is no probability.
    """

    kind: Kind
    reason: str
    certainty: int

    @property
    def confirmed(self) -> bool:
        """Whether features or pixels say that the two share content or, where none can, the score is far beyond the threshold."""
        return self.certainty > UNCONFIRMED if self.kind == "likely" else self.kind != "unrelated"

    @property
    def is_copy(self) -> bool:
        """Whether one is called a copy of the other."""
        return self.kind in ("same file", "certain", "likely") and self.confirmed

    @property
    def is_certain(self) -> bool:
        """Whether it certainly is one: of such pairs alone one file may go, a person looks at all others."""
        return self.kind in ("same file", "certain")


EQUAL_BYTES = Judgement("same file", "the same bytes", 100)
EQUAL_PIXELS = Judgement("same file", "the same pixels", 100)


def judge(
    registration: Registration | None,
    apart: str = "",
    described: bool = False,
    far_beyond: bool = False,
    verified: bool = False,
) -> Judgement:
    """Return the class of a pair of pictures.

    Args:
        registration: The pictures laid on each other; None where that was not possible.
        apart: Why they are two shots, in words; empty where nothing says so.
        described: Whether the descriptor's score is that of a copy.
        far_beyond: Whether it is by far, and one picture has too little detail for more to be known.
        verified: Whether their features agree, as was found before.
    """
    laid = None
    if registration is not None and (
        registration.inliers >= MIN_INLIERS or registration.median >= SURE_MEDIAN
    ):
        laid = registration
    matched = verified or (registration is not None and registration.matched >= MIN_INLIERS)
    if laid is None and not matched and not described:
        return Judgement("unrelated", "neither descriptor nor features say that they share anything", 0)
    if apart:
        return Judgement("same scene", apart, 10)
    if laid is not None:
        return _judge_pixels(laid)
    if matched:
        return Judgement("likely", DETAILS_ALONE, BARELY_CONFIRMED)
    if far_beyond:
        return Judgement("likely", FAR_BEYOND, BARELY_CONFIRMED)
    return Judgement("likely", NOT_CONFIRMED, UNCONFIRMED)


def _judge_pixels(found: Registration) -> Judgement:
    """Judge pictures that were laid on each other."""
    agreeing = f"{100 * found.median:.0f} % agreement of {found.blocks} blocks"
    if (found.parallax > MAX_PARALLAX and found.median < SURE_MEDIAN) or found.median < OTHER_MEDIAN:
        return Judgement(
            "same scene",
            f"details fit, pixels do not ({agreeing})",
            _grade(found.median, 0.0, OTHER_MEDIAN, 10, 39),
        )
    scene = _find_motion(found)
    if scene:
        return Judgement("same scene", scene, APART)
    doubt = _find_doubt(found)
    if doubt:
        return Judgement(
            "likely", f"{doubt} ({agreeing})", _grade(found.median, OTHER_MEDIAN, 1.0, 60, MAX_LIKELY)
        )
    covered = f", {100 * found.changed:.0f} % covered" if found.is_covered else ""
    return Judgement(
        "certain", f"{AGREE} ({agreeing}{covered})", _grade(found.median, MIN_MEDIAN, 1.0, 90, MAX_CERTAIN)
    )


def _find_motion(found: Registration) -> str:
    """Return what shows that the scene was seen twice, in words; empty for nothing."""
    if found.parallax > CLEAR_PARALLAX:
        return (
            f"near and far are displaced against each other (by {found.parallax:.1f} pixels of {MAX_SIDE})"
        )
    if found.changed * found.blocks >= MIN_CHANGED - 0.5 and found.moved > MAX_MOVED:
        return f"something has moved ({100 * found.changed:.0f} % of the picture differ)"
    return ""


def _find_doubt(found: Registration) -> str:
    """Return what speaks against a certain copy, in words; empty for nothing."""
    if found.blocks < MIN_BLOCKS or np.isnan(found.parallax):
        return TOO_LITTLE
    if found.parallax > MAX_PARALLAX:
        return f"parts are displaced against each other, by {found.parallax:.1f} pixels of {MAX_SIDE}"
    if found.outside > MAX_OUTSIDE:
        return "each shows something that the other does not"
    if found.perspective > MAX_PERSPECTIVE:
        return "seen from another angle"
    if found.changed > MAX_CHANGED:
        return f"{100 * found.changed:.0f} % of the picture differ"
    return "the pixels agree in part" if found.median < MIN_MEDIAN else ""


def _grade(value: float, low: float, high: float, least: int, most: int) -> int:
    """Return a certainty from least to most for a value from low to high."""
    return round(float(np.interp(value, (low, high), (least, most))))


MAX_SHOWN = 0.98  # share of a picture below which the other one was cropped
MIN_BRIGHTER = 4.0  # levels by which the mean brightness differs
# words of edits beside which the rest need not be the same
ADDED = {"framed", "captioned or covered in part"}
TONES = {"a negative", "without its colours", "brighter", "other tones or colours"}


def list_edits(
    found: Comparison, aligned: Registration, query: tuple[int, ...], reference: tuple[int, ...]
) -> list[str]:
    """Return what tells two copies apart, in words; nothing of size and compression.

    Args:
        found: The comparison of the two.
        aligned: The two in one frame.
        query: Height and width of one of them when it was aligned.
        reference: Those of the other one.
    """
    homography = map_pixels(found.homography, query, reference)

    seen = min(aligned.covered.mean(), aligned.seen.mean())
    said = ["framed"] if any(found.framed) else []
    if not said and any(found.cropped) and seen < MAX_SHOWN:
        said.append(f"cropped to {100 * seen:.0f} %")
    said += _describe_map(homography)
    if aligned.negative:
        said.append("a negative")
    if any(found.covered):
        said.append("captioned or covered in part")
    if aligned.negative or not ADDED.isdisjoint(said):  # what was added may have any tones
        return said
    if any(found.discoloured):
        said.append("without its colours")
    elif any(found.recoloured):
        apart = (aligned.fixed - aligned.warped)[aligned.inside].mean()
        said.append("brighter" if abs(apart) > MIN_BRIGHTER else "other tones or colours")
    return said


def describe_edits(said: Sequence[str]) -> str:
    """Return what tells two copies apart as a phrase, such as "cropped to 80 %, brighter, otherwise the same"."""
    if not said:
        return "the same picture"
    return ", ".join(said if not ADDED.isdisjoint(said) else [*said, "otherwise the same"])


def _describe_map(homography: Float64s) -> list[str]:
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
