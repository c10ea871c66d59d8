"""Two pictures: what is found of them, what costs least first, and what class follows from it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from image_copies.data.errors import ImageError

from .verification import differences, judgement
from .verification.alignment import MAX_SIDE, NARROW, Grey, invert, reduce_picture
from .verification.contents import NEXT_DIFFER, list_missing, match_contents
from .verification.edits import Comparison, compare_edits
from .verification.geometry import Evidence, map_pixels
from .verification.picture import Picture, tell_shots_apart
from .verification.recompression import follow_by_compression
from .verification.registration import Registration, align, register

CLOSE_SIDE = 2 * MAX_SIDE  # pixels of the longer side at which copies are looked at again
# blocks that must agree where the tones do not: a disc of one colour is like any other one
MIN_TONE_BLOCKS = 80
ALIKE = "the same pixels are shown"
PART_DIFFERS = "a part of the two differs"
OTHER_THING = "a part may show another thing"


@dataclass(frozen=True, eq=False)
class Pair:
    """Two pictures. What is asked of them is found out when it is first asked for; ImageError: one cannot be read.

    Attributes:
        query: One picture.
        reference: The other.
        evidence: What their features share, if they were verified before.
        described: Whether the descriptor's score is that of a copy.
        far_beyond: Whether nothing but that score, far beyond the threshold, says that one copies the other.
    """

    query: Picture
    reference: Picture
    evidence: Evidence | None = None
    described: bool = False
    far_beyond: bool = False

    @cached_property
    def shows_same(self) -> bool:
        """Whether both show the same pixels first."""
        if np.array_equal(self.query.pixels, self.reference.pixels):
            with suppress(ImageError):
                return np.array_equal(self.query.read(), self.reference.read())
        return False

    @cached_property
    def registration(self) -> Registration | None:
        """One laid on the other; None where nothing says how."""
        return register(self.query, self.reference, self.evidence)

    @cached_property
    def has_few_features(self) -> bool:
        """Whether one of them has less detail than a pair needs to be confirmed."""
        return (
            min(len(picture.close_features.points) for picture in (self.query, self.reference))
            < judgement.FEW_FEATURES
        )

    @cached_property
    def conflict(self) -> str | None:
        """What a comparison of all that both files hold says (`match_contents`)."""
        try:
            held = self.query.contents, self.reference.contents
        except ImageError as error:
            return f"what they hold cannot be compared: {error}"
        return match_contents(self.query.file, self.reference.file, held, self.shows_same)

    def judge(self) -> tuple[judgement.Judgement, Comparison | None]:
        """Return the class of the two and, if one certainly is a copy of the other, which of them was edited."""
        if self.shows_same:
            return self._judge_alike(), None
        found = self.registration
        verified = self.evidence is not None
        far_beyond = self.far_beyond and self.has_few_features
        apart = tell_shots_apart(self.query, self.reference)
        judged = judgement.judge(found, apart, self.described, far_beyond, verified)
        if found is None or judged.kind != "certain":
            return judged, None
        if self.conflict:
            return judgement.Judgement(
                "likely", f"{self.conflict}; {judged.reason}", judgement.MAX_LIKELY
            ), None
        shown = self.query.pixels, self.reference.pixels
        shapes = shown[0].shape, shown[1].shape
        colours = differences.lay_colours(found, *shown)
        tones = differences.compare_colours(*colours, found.inside)
        edits = compare_edits(found, *shapes).add(tones)
        said = judgement.list_edits(edits, found, *shapes)
        doubt, differing = self._find_doubt(found, edits, said, colours)
        if doubt:
            return judgement.Judgement(
                "likely", judged.reason.replace(judgement.AGREE, doubt), judgement.MAX_LIKELY
            ), None
        alike = not said and shown[0].shape == shown[1].shape  # smaller pictures are less sharp, too
        said += ["blurred"] * (alike and len(set(edits.blurred)) == 2)
        judged = replace(
            judged, reason=judged.reason.replace(judgement.AGREE, judgement.describe_edits(said))
        )
        return judged, replace(edits, differing=differing)

    def _judge_alike(self) -> judgement.Judgement:
        """Judge two files that show the same pixels first."""
        if self.conflict is None:
            return judgement.EQUAL_PIXELS
        if self.conflict:
            said = f"{ALIKE}, but {self.conflict}"
            if self.conflict.endswith(NEXT_DIFFER):
                return judgement.Judgement("same scene", said, judgement.APART)
            return judgement.Judgement("likely", said, judgement.MAX_LIKELY)
        one, other = self.query.contents, self.reference.contents
        more = dict.fromkeys([*list_missing(one, other), *list_missing(other, one)])  # each once
        said = f"{ALIKE}, but one file has {', '.join(more)}" if more else ALIKE
        return judgement.Judgement("certain", said, judgement.MAX_CERTAIN)

    def _find_doubt(
        self, found: Registration, edits: Comparison, said: Sequence[str], colours: tuple[Grey, Grey]
    ) -> tuple[str, float]:
        """Return why a part of two pictures that agree is not that of a copy, in words, and how far their parts differ.

        Args:
            found: The two laid on each other.
            edits: What is seen of them.
            said: What tells them apart, in words.
            colours: Those of both, in one frame.
        """
        closer = self._look_closer(edits, found.negative)
        finer = closer is not None and closer.fixed.shape != found.fixed.shape
        shares = differences.measure_differences(found)
        close = shares if closer is None else differences.measure_differences(closer)
        # where both are scaled once at most
        stays = finer or closer is None or differences.shows_another_thing(closer, close)
        apart = stays and differences.shows_another_thing(found, shares)
        if apart and not self._follows(edits):
            return OTHER_THING, 0.0
        if found.blocks < MIN_TONE_BLOCKS and not judgement.TONES.isdisjoint(said):
            return judgement.TOO_LITTLE, 0.0
        if any(edits.covered) or found.is_covered:
            return "", float(shares.max())
        if differences.shows_other_colours(*colours, found.inside):
            return PART_DIFFERS, 0.0
        differing = float(min(shares.max(), close.max()) if finer else shares.max())
        plain = all(word.startswith("cropped") for word in said)
        doubted = plain and differing >= differences.MIN_DIFFERING
        if closer is not None and close.max() > differences.CLOSE_EXCESS:
            doubted = doubted or differences.shows_another_thing(closer, close)
        return (PART_DIFFERS if doubted and not (apart or self._follows(edits)) else ""), differing

    def _look_closer(self, edits: Comparison, negative: bool) -> Registration | None:
        """Lay one on the other with more pixels; None where neither has more, or one cannot be read any more."""
        shown = []
        with suppress(ImageError):
            for picture in (self.query, self.reference):
                shorter, longer = sorted(picture.pixels.shape[:2])
                pixels = picture.read(round(CLOSE_SIDE * max(shorter / longer, 1 / NARROW)))
                shown.append(reduce_picture(pixels, CLOSE_SIDE))
        if len(shown) < 2 or max(max(pixels.shape) for pixels in shown) <= MAX_SIDE:
            return None
        homography = map_pixels(edits.homography, shown[0].shape, shown[1].shape)
        return align(shown[0], shown[1], homography, negative)

    def _follows(self, edits: Comparison) -> bool:
        """Whether one of them is what the other one gives when it is compressed."""
        with suppress(ImageError):
            own, theirs = self.query.read(), self.reference.read()
            files = self.query.content, self.reference.content
            homography = map_pixels(edits.homography, own.shape, theirs.shape)
            left = follow_by_compression(files[1], theirs, own, homography, files[0])
            return (
                left is not None
                or follow_by_compression(files[0], own, theirs, invert(homography), files[1]) is not None
            )
        return False
