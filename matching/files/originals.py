"""Which of the files that are certainly copies of each other was edited least: the largest one need not be the original."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, text_of
from image_copies.data.sources.archives import read_image_bytes

from ..pair import PART_DIFFERS
from ..pairs import LastUsed, PairJudge
from ..verification.alignment import invert, map_points
from ..verification.colours import SIDE, compare_colours, reduce_colours
from ..verification.derivation import find_made
from ..verification.detail import MAX_DENSITY, compare_detail
from ..verification.differences import MIN_DIFFERING
from ..verification.edits import Comparison, Edits
from ..verification.geometry import map_pixels
from ..verification.quantisation import LOSSLESS, find_coding, measure_step
from ..verification.recompression import MAX_PIXELS, follow_by_compression
from .facts import Facts
from .keeping import NEAR_IN_TIME, is_named_as_copy, sort_files

LEAST_EDITED = "least edited"  # begins the reason to keep a file that is not the largest one
PLANNED_TOGETHER = 4  # groups that threads plan side by side
# pictures kept as a whole, two of each: the largest file is compared with several
MAX_DECODED = 2 * PLANNED_TOGETHER
MAX_REDUCED = 400  # pictures of which the colours are kept, 0.05 MB each
# pixels of their shorter side: JPEG decoders round up, which would visibly shift smaller ones
DECODED_SIDE = 4 * SIDE
MAX_COMPARED = 8  # files that are compared with the largest one
# resolution that a file kept instead of the largest one must have, as a share of the largest one's
MIN_DENSITY = 0.5
# grey levels, and steps of its compression, of new detail that is no trace of either
MIN_NEW_DETAIL, NEW_DETAIL_STEPS = 1.0, 0.5
ALL_DETAIL = 255.0  # of what was surely not enlarged
UNKNOWN_STEP = 8.0  # assumed step of formats whose compression is not known
MAX_STEPS_APART = 1.25  # ratio of the steps of two compressions that are alike
MIN_PART = 0.25  # share of a picture below which a part of it was cut out for its own sake
# grey levels by which what one leaves of the other exceeds the reverse, where that tells which was made of which
MIN_LEFT_APART = 0.2


@dataclass(frozen=True)
class Origin:
    """Which of two copies the other one was made of, and what says so of that, in words that follow its name."""

    path: Path
    reason: str


class EditComparer:
    """Compares files that are certainly copies of each other."""

    def __init__(self, judge: PairJudge) -> None:
        self._judge, self._verdicts = judge, judge.verdicts
        self._pixels = LastUsed(decode_rgb, MAX_DECODED)
        self._colours = LastUsed(lambda path: reduce_colours(decode_rgb(path, DECODED_SIDE)), MAX_REDUCED)
        self._steps = LastUsed(lambda path: measure_step(read_image_bytes(path)), MAX_REDUCED)
        self._codings = LastUsed(lambda path: find_coding(read_image_bytes(path)), MAX_REDUCED)
        self._known: dict[tuple[Path, Path], Comparison | None] = {}
        self._left: dict[tuple[Path, Path], tuple[float, bool] | None] = {}  # of each reference, by its query
        self._origins: dict[tuple[Path, Path], Origin | None] = {}

    def compare(self, one: Facts, other: Facts) -> Comparison | None:
        """Return which of two files was edited; None where that cannot be seen."""
        pair = one.path, other.path
        if pair not in self._known:
            turned = pair[::-1] in self._known
            if turned:
                back = self._known[pair[::-1]]
                seen = back and back.turned()
            else:
                seen = self._judge.compare_edits(*pair)
            self._known[pair] = seen and self._look(seen, one, other, turned)
        return self._known[pair]

    def _look(self, seen: Comparison, one: Facts, other: Facts, turned: bool) -> Comparison:
        """Add what the files' own pixels show; of a comparison that was turned, all but their compression is known."""

        def look() -> Comparison:
            return self._add_compression(seen if turned else self._add_detail(seen, one, other), one, other)

        return self._verdicts.ask((one.path, other.path), "edits", (seen, turned), look, Comparison, Edits)

    def find_origin(self, one: Facts, other: Facts) -> Origin | None:
        """Return which of two certain copies the other one was made of; None where nothing says so."""
        pair = one.path, other.path
        if pair not in self._origins:
            self._origins[pair] = self._origins[pair[::-1]] = self._find_origin(one, other)
        return self._origins[pair]

    def _find_origin(self, one: Facts, other: Facts) -> Origin | None:
        pair = (one.path, other.path)
        found = self.compare(one, other)
        if found is None:  # the same pixels
            late = [(coding != "JPEG") + (coding == LOSSLESS) for coding in self._find_codings(one, other)]
            return (
                None
                if late[0] == late[1]
                else Origin((one, other)[late[1] < late[0]].path, "holds the pixels of a compressed file")
            )
        made = _find_made(
            one,
            other,
            found,
            lambda: self._verdicts.ask(pair, "made", [found], partial(self._find_derived, one, other, found)),
        )
        return made and Origin((other, one)[made[0]].path, made[1])

    def _find_derived(self, one: Facts, other: Facts, found: Comparison) -> int | None:
        """Return which of two files, 0 or 1, follows from the other one by its pixels; None where that cannot be seen."""
        if not (one.width and other.width and _is_same_scale(found)):
            return None
        try:
            query, reference = (
                (self._pixels.require(facts.path), read_image_bytes(facts.path)) for facts in (one, other)
            )
        except ImageError:
            return None
        return find_made(query, reference, map_pixels(found.homography, query[0].shape, reference[0].shape))

    def _find_codings(self, *files: Facts) -> list[str | None]:
        return [self._codings.of(facts.path) for facts in files]

    def _add_detail(self, found: Comparison, one: Facts, other: Facts) -> Comparison:
        """Add what only the files' own pixels show, if they can be read."""
        if not (one.width and other.width):
            return found
        own = self._colours.of(one.path)
        others = self._colours.of(other.path)
        if own is not None and others is not None:
            seen = compare_colours(found.homography, own, others)
            if found.query.covered or found.reference.covered:  # what was laid over may have any tones
                seen.pop("recoloured", None)
            found = found.add(seen)
        sizes = (one.width, one.height), (other.width, other.height)
        dated = bool(one.taken), bool(other.taken)
        trusted = dated[0] and not dated[1], dated[1] and not dated[0]
        with suppress(ImageError):
            found = found.add(
                compare_detail(
                    found,
                    sizes,
                    lambda: (self._pixels.require(one.path), self._pixels.require(other.path)),
                    trusted,
                )
            )
        return found.add({"step": [self._steps.of(facts.path) for facts in (one, other)]})

    def _add_compression(self, found: Comparison, one: Facts, other: Facts) -> Comparison:
        """Add whether the reference follows from the query by compression, and whether that follows from it."""
        left = back = None
        with suppress(ImageError):
            if one.width and other.width and _may_follow(found):
                left = self._follow(found, one.path, other.path)
                if _is_same_scale(found) and not found.reference.cropped:
                    back = self._follow(found.turned(), other.path, one.path)
        made = [_is_nearer(back, left), _is_nearer(left, back)]  # the query, the reference
        if left is not None and left[1]:
            found = found.add({"new_detail": (ALL_DETAIL, found.reference.new_detail)})
        codings = self._find_codings(one, other)
        foreign = codings[0] != codings[1] and not {"JPEG", LOSSLESS}.issuperset(codings)
        if _is_same_scale(found) and (all(made) or (any(made) and foreign)):
            derived = self._find_derived(one, other, found)
            if derived is not None:
                made = [derived == 0, derived == 1]
            elif foreign and codings[made.index(True)] not in MAX_PIXELS:
                made = [True, True]  # that it follows does not say that it was made so
        return replace(found, reversed=made[0], compressed=made[1])

    def _follow(self, found: Comparison, query: Path, reference: Path) -> tuple[float, bool] | None:
        if (query, reference) not in self._left:
            source = self._pixels.require(query)
            pixels = self._pixels.require(reference)
            homography = map_pixels(found.homography, source.shape, pixels.shape)
            files = read_image_bytes(reference), read_image_bytes(query)
            self._left[query, reference] = follow_by_compression(
                content=files[0], pixels=pixels, source=source, homography=homography, kept=files[1]
            )
        return self._left[query, reference]


def choose_least_edited(
    largest: Facts, others: Iterable[Facts], comparer: EditComparer
) -> tuple[Facts, str] | None:
    """Choose the file to keep instead of the largest one, and give the reason; None where the largest one is to be kept.

    Args:
        largest: The file with the most pixels.
        others: Files that are certainly copies of it, the largest first.
        comparer: Compares two of them.
    """
    kept, why = largest, ""
    for other in islice(others, MAX_COMPARED):
        origin = comparer.find_origin(kept, other)
        if origin is None or origin.path != other.path:
            continue
        found = comparer.compare(kept, other)
        if found is not None and (
            found.reference.cropped or (found.reference.density < MIN_DENSITY and not found.query.enlarged)
        ):
            continue
        size = f"{kept.width} × {kept.height}"
        kept, why = other, f"{LEAST_EDITED}: {text_of(kept.path.name)}, {size}, {origin.reason}"
    return (kept, why) if why else None


def find_advantage(kept: Facts, file: Facts, comparer: EditComparer, distrusted: bool = False) -> str:
    """Return what a file has, or may have, that the kept one, certainly a copy of it, lacks, in words; empty for nothing.

    Args:
        kept: The file that is kept.
        file: The other one.
        comparer: Compares the two.
        distrusted: Whether the kept file is one for the changes that were made to larger ones.
    """
    found = comparer.compare(kept, file)
    if found is None:  # the same pixels
        origin = comparer.find_origin(kept, file)
        return f"the kept file {origin.reason}" if origin is not None and origin.path == file.path else ""
    own, theirs, unclear = _sort_changes(found)
    sure = _has_new_detail(found.query)
    more = _compare_compression(found)
    by = "compression" if _is_same_scale(found) else "scaling and compression"
    advantages = {  # the first that holds is the reason
        "it is the larger file": distrusted and theirs and sort_files([kept, file])[0] is file,
        f"the kept file {' and '.join(own)}": own,
        f"one of the two {' and '.join(unclear)}": unclear,
        # a caption, or another name in the same form
        "it has something that the kept file lacks": found.reference.covered,
        PART_DIFFERS: found.differing >= MIN_DIFFERING and not found.compressed,
        "it shows more than the kept file": found.query.cropped,
        "it is a small part of the kept file, which somebody chose": found.reference.cropped
        and _measure_part(found) < MIN_PART,
        "it has more pixels than the kept file": found.reference.density > MAX_DENSITY,
        "it is sharper than the kept file": found.query.blurred and not sure,
        "what the kept file shows beyond it may have been added": found.query.extended,
        "nothing says that the kept file was not enlarged": found.query.density > MAX_DENSITY and not sure,
        "the kept file was compressed more, or once more": more == "kept",
        f"both {kept.form} and {file.form} have as many pixels, and neither says which was first": more
        == "unclear",
        f"they differ by more than {by}": not found.compressed,
    }
    return next((words for words, holds in advantages.items() if holds), "")


def _measure_part(found: Comparison) -> float:
    """Return the share of the query that the reference shows."""
    corners = map_points(invert(found.homography), np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64))
    return cv2.contourArea(corners.astype(np.float32))


def _has_new_detail(edits: Edits) -> bool:
    """Whether a file surely shows detail that its smaller copy cannot have had, and not what its compression left."""
    return edits.new_detail > max(MIN_NEW_DETAIL, NEW_DETAIL_STEPS * (edits.step or UNKNOWN_STEP))


def _sort_changes(found: Comparison) -> tuple[list[str], list[str], list[str]]:
    """Return the changes that were made to the query, to the reference, and to one of the two."""
    one, other = found.query.changes, found.reference.changes
    unclear = [change for change in one if change in other]
    return (
        [change for change in one if change not in unclear],
        [change for change in other if change not in unclear],
        unclear,
    )


def _find_made(
    one: Facts, other: Facts, found: Comparison, find_derived: Callable[[], int | None]
) -> tuple[int, str] | None:
    """Return which of two files, 0 or 1, was made of the other, and what says so in words; None where nothing does.

    Args:
        one: The query.
        other: The reference.
        found: What is seen of them.
        find_derived: Finds which of their pixels follow from the other's; called where their edits do not tell.

    The number of bytes says nothing: what was edited is often saved at a higher quality.
    """
    own, theirs, unclear = _sort_changes(found)
    if bool(own) != bool(theirs):
        return int(not own), " and ".join(own or theirs)
    resaved = found.compressed != found.reversed and _is_same_scale(found)
    follows = int(found.compressed) if resaved else find_derived()
    if follows is not None:
        return follows, " and ".join([*unclear, "follows from the other one by its pixels"])
    if own:
        return None
    sides = found.query, found.reference
    extended = found.query.extended or found.reference.extended
    clues: dict[str, Sequence[Any]] = {
        "shows less": [side.cropped and not extended for side in sides],
        "shows less detail": [_has_new_detail(side) for side in sides[::-1]],
        "does not say when it was taken": [not facts.taken for facts in (one, other)],
        "has fewer EXIF entries": [-one.tags, -other.tags],
        "is named as a copy": [is_named_as_copy(facts.path) for facts in (one, other)],
        "has a younger file": [one.modified, other.modified]
        if abs(one.modified - other.modified) > NEAR_IN_TIME
        else [0, 0],
    }
    for words, (mine, others) in clues.items():
        if mine != others:
            return int(mine < others), " and ".join([*unclear, words])
    return None


def _is_same_scale(found: Comparison) -> bool:
    return 1 / MAX_DENSITY < found.reference.density < MAX_DENSITY


def _may_follow(found: Comparison) -> bool:
    """Whether nothing else says that the reference has something that the query lacks."""
    lacking = found.query.changes or found.query.cropped or found.reference.covered
    return found.reference.density < MAX_DENSITY and not lacking


def _is_nearer(left: tuple[float, bool] | None, other: tuple[float, bool] | None) -> bool:
    """Whether what one of two leaves of the other, compressed as that is, is little, and not much more than the reverse."""
    return left is not None and (other is None or left[0] < other[0] + MIN_LEFT_APART)


def _compare_compression(found: Comparison) -> Literal["kept", "unclear", ""]:
    """Return "kept" if the query, of the same scale, was compressed more than the reference, or once more; empty if not."""
    one, other = found.query.step, found.reference.step
    if not _is_same_scale(found):
        return ""
    if found.reversed and not found.compressed:
        return "kept"
    if found.reversed and (one is None or other is None or other > MAX_STEPS_APART * one):
        return "unclear"
    return "kept" if one and other and one > MAX_STEPS_APART * other else ""
