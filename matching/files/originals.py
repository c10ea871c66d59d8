"""Which of the files that are certainly copies of each other was edited least: the largest one need not be the original."""

from contextlib import suppress
from functools import partial
from pathlib import Path

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.sources.archives import read_image_bytes

from ..pair import PART_DIFFERS
from ..pairs import LastUsed, PairJudge
from ..verification import recompression
from ..verification.derivation import find_made
from ..verification.detail import MAX_DENSITY, compare_detail
from ..verification.differences import MIN_DIFFERING
from ..verification.edits import ONE, OTHER, Comparison
from ..verification.geometry import map_pixels
from .facts import Facts

PLANNED_TOGETHER = 4  # groups that threads plan side by side
# pictures kept as a whole, two of each: the largest file is compared with several
MAX_DECODED = 2 * PLANNED_TOGETHER
MAX_KNOWN = 400  # files of which it is kept how they were compressed
# grey levels, and steps of its compression, of new detail that is no trace of either
MIN_NEW_DETAIL, NEW_DETAIL_STEPS = 1.0, 0.5
ALL_DETAIL = 255.0  # of what was surely not enlarged
UNKNOWN_STEP = 8.0  # assumed step of formats whose compression is not known
MAX_STEPS_APART = 1.25  # ratio of the steps of two compressions that are alike
# grey levels by which what one leaves of the other exceeds the reverse, where that tells which was made of which
MIN_LEFT_APART = 0.2


class EditComparer:
    """Compares files that are certainly copies of each other."""

    def __init__(self, judge: PairJudge) -> None:
        self._judge = judge
        self._contents = LastUsed(read_image_bytes, MAX_DECODED)
        read = self._contents.require
        self._pixels = LastUsed(lambda path: decode_rgb(read(path)), MAX_DECODED)
        self._steps = LastUsed(lambda path: recompression.measure_step(read(path)), MAX_KNOWN)
        self._codings = LastUsed(lambda path: recompression.find_coding(read(path)), MAX_KNOWN)

    def compare(self, one: Facts, other: Facts) -> Comparison | None:
        """Return what was done to each of two files; None where that cannot be seen, or they show the same pixels."""
        pair = one.path, other.path
        seen = self._judge.compare_edits(*pair)
        if seen is None or not (one.width and other.width):
            return seen

        def look() -> Comparison:
            return self._add_compression(self._add_detail(seen, one, other), one, other)

        return self._judge.verdicts.ask(pair, "edits", [seen], look, Comparison)

    def find_made(self, one: Facts, other: Facts, found: Comparison | None) -> tuple[int, str] | None:
        """Return which of two files, 0 or 1, was made of the other, and what says so, in words that follow its name.

        None where nothing does. The number of bytes says nothing: what was edited is often saved at a higher quality.

        Args:
            one: The query.
            other: The reference.
            found: What was done to each.
        """
        if found is None:
            late = [
                (coding != "JPEG") + (coding == recompression.LOSSLESS)
                for coding in self._find_codings(one, other)
            ]
            made = int(late[0] < late[1])
            return None if late[0] == late[1] else (made, "holds the pixels of a compressed file")
        own, theirs, unclear = _sort_changes(found)
        if bool(own) != bool(theirs):
            return int(not own), " and ".join(own or theirs)
        if len(set(found.compressed)) == 2 and _is_same_scale(found):
            follows: int | None = found.compressed.index(True)
        else:
            derived = partial(self._find_derived, one, other, found)
            follows = self._judge.verdicts.ask((one.path, other.path), "made", [found], derived)
        if follows is not None:
            return follows, " and ".join([*unclear, "follows from the other one by its pixels"])
        if own:
            return None
        clues = {
            "shows less": found.cropped,
            "shows less detail": (_has_new_detail(found, OTHER), _has_new_detail(found, ONE)),
            "does not say when it was taken": (not one.taken, not other.taken),
        }
        for words, (mine, others) in clues.items():
            if mine != others:
                return int(others), " and ".join([*unclear, words])
        return None

    def _find_derived(self, one: Facts, other: Facts, found: Comparison) -> int | None:
        """Return which of two files, 0 or 1, follows from the other one by its pixels; None where that cannot be seen."""
        if not _is_same_scale(found):
            return None
        try:
            query, reference = (
                (self._pixels.require(facts.path), self._contents.require(facts.path))
                for facts in (one, other)
            )
        except ImageError:
            return None
        return find_made(query, reference, map_pixels(found.homography, query[0].shape, reference[0].shape))

    def _find_codings(self, *files: Facts) -> list[str | None]:
        return [self._codings.of(facts.path) for facts in files]

    def _add_detail(self, found: Comparison, one: Facts, other: Facts) -> Comparison:
        """Add what only the files' own pixels show, if they can be read."""
        if any(found.covered):  # what was laid over may have any tones
            found = found.add({"recoloured": (False, False)})
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
        """Add whether each of the two follows from the other one by compression."""
        follows = (
            self._follow(found.exchange(), other.path, one.path),
            self._follow(found, one.path, other.path),
        )
        made = [_is_nearer(*follows), _is_nearer(*follows[::-1])]  # the query, the reference
        detail = [
            ALL_DETAIL if made_of is not None and made_of[1] else new_detail
            for made_of, new_detail in zip(follows[::-1], found.new_detail, strict=True)
        ]
        found = found.add({"new_detail": detail})
        codings = self._find_codings(one, other)
        foreign = codings[0] != codings[1] and not {"JPEG", recompression.LOSSLESS}.issuperset(codings)
        if _is_same_scale(found) and (all(made) or (any(made) and foreign)):
            derived = self._find_derived(one, other, found)
            if derived is not None:
                made = [derived == 0, derived == 1]
            elif foreign and codings[made.index(True)] not in recompression.MAX_PIXELS:
                made = [True, True]  # that it follows does not say that it was made so
        return found.add({"compressed": made})

    def _follow(self, found: Comparison, query: Path, reference: Path) -> tuple[float, bool] | None:
        """Compress the query as the reference was, where nothing else says that the reference has something that it lacks."""
        lacking = found.list_changes(ONE) or found.cropped[ONE] or found.covered[OTHER]
        if lacking or found.density[OTHER] >= MAX_DENSITY:
            return None
        try:
            source, pixels = self._pixels.require(query), self._pixels.require(reference)
        except ImageError:
            return None
        return recompression.follow_by_compression(
            content=self._contents.require(reference),
            pixels=pixels,
            source=source,
            homography=map_pixels(found.homography, source.shape, pixels.shape),
            kept=self._contents.require(query),
        )


def find_advantage(found: Comparison, kept: Facts, file: Facts) -> str:
    """Return what a file has, or may have, that the kept one, certainly a copy of it, lacks, in words; empty for nothing.

    Args:
        found: What was done to the kept file, the query, and to the other one.
        kept: The file that is kept.
        file: The other one.
    """
    own, _, unclear = _sort_changes(found)
    sure = _has_new_detail(found, ONE)
    as_large = _is_same_scale(found)
    by = "compression" if as_large else "scaling and compression"
    own_step, their_step = (step or 0.0 for step in found.step)
    kept_follows, follows = found.compressed
    advantages = {  # the first that holds is the reason
        f"the kept file {' and '.join(own)}": own,
        f"one of the two {' and '.join(unclear)}": unclear,
        # a caption, or another name in the same form
        "it has something that the kept file lacks": found.covered[OTHER],
        PART_DIFFERS: found.differing >= MIN_DIFFERING and not follows,
        "it shows more than the kept file": found.cropped[ONE],
        "it is a part of the kept file, which somebody chose": found.cropped[OTHER],
        "it has more pixels than the kept file": found.density[OTHER] > MAX_DENSITY,
        "it is sharper than the kept file": found.blurred[ONE] and not sure,
        "nothing says that the kept file was not enlarged": found.density[ONE] > MAX_DENSITY and not sure,
        f"they differ by more than {by}": not follows,
        "the kept file was compressed more": as_large and own_step > MAX_STEPS_APART * their_step > 0,
        f"both {kept.form} and {file.form} have as many pixels, and neither says which was first": as_large
        and kept_follows
        and not 0 < their_step <= MAX_STEPS_APART * own_step,
    }
    return next((words for words, holds in advantages.items() if holds), "")


def _has_new_detail(found: Comparison, side: int) -> bool:
    """Whether one of them surely shows detail that its smaller copy cannot have had, and not what its compression left."""
    step = found.step[side] or UNKNOWN_STEP
    return found.new_detail[side] > max(MIN_NEW_DETAIL, NEW_DETAIL_STEPS * step)


def _sort_changes(found: Comparison) -> tuple[list[str], list[str], list[str]]:
    """Return the changes that were made to the query, to the reference, and to one of the two."""
    one, other = found.list_changes(ONE), found.list_changes(OTHER)
    unclear = [change for change in one if change in other]
    return (
        [change for change in one if change not in unclear],
        [change for change in other if change not in unclear],
        unclear,
    )


def _is_same_scale(found: Comparison) -> bool:
    return 1 / MAX_DENSITY < found.density[OTHER] < MAX_DENSITY


def _is_nearer(left: tuple[float, bool] | None, other: tuple[float, bool] | None) -> bool:
    """Whether what one of two leaves of the other, compressed as that is, is little, and not much more than the reverse."""
    return left is not None and (other is None or left[0] < other[0] + MIN_LEFT_APART)
