"""Which of the files that are certainly copies of each other was edited least: the largest one need not be the original."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.names import text_of
from image_copies.matching.files.facts import Facts
from image_copies.matching.files.keeping import order_by_size
from image_copies.matching.verification.colours import SIDE, compare_colours, reduce_colours
from image_copies.matching.verification.detail import compare_detail
from image_copies.matching.verification.edits import COVERED, FRAMED, RECOLOURED, TURNED, Comparison
from image_copies.matching.verification.pairs import LastUsed, PairJudge
from image_copies.matching.verification.quantisation import measure_quantisation

Comparing = Callable[[Facts, Facts], Comparison | None]
LEAST_EDITED = "least edited"  # begins the reason to keep a file that is not the largest one
MAX_DECODED = 2  # pictures that are kept as a whole: the largest file of a group is compared with several
MAX_REDUCED = 400  # pictures of which the colours are kept, 0.05 MB each
MAX_COMPARED = 8  # files that are compared with the largest one
MIN_DENSITY = 0.5  # pixels per length of a file that is kept instead, of those of the largest one
MIN_DIFFERING = (
    0.005  # share of the blocks from which on two pictures may be two forms that were filled in, or one has a part hidden
)
MAX_DENSITY = 1.1  # pixels per length up to which a file shows no more than the kept one
MEASURED = ("JPEG", "PNG", "BMP", "TIFF")  # formats of which it is known how coarsely they were compressed
MAX_STEPS_APART = 1.25  # ratio of the steps of two compressions that are alike
MAX_EARLIER_APART = 2.0  # ratio of a step to that seen of an earlier compression, of which not all frequencies are known
SEEN_STEP, SEEN_RATIO = 4.0, 2.0  # step, and its ratio to the later one, from which a compression shows in what is made of a file
MIN_MAJORITY = 3  # copies that are like a file, and twice as many as are not


class EditComparer:
    """Compares files that are certainly copies of each other."""

    def __init__(self, judge: PairJudge) -> None:
        self._judge = judge
        self._pixels = LastUsed(decode_rgb, MAX_DECODED)
        self._colours = LastUsed(lambda path: reduce_colours(decode_rgb(path, short_side=SIDE)), MAX_REDUCED)
        self._quantisations = LastUsed(measure_quantisation, MAX_REDUCED)
        self._known: dict[tuple[Path, Path], Comparison | None] = {}

    def compare(self, one: Facts, other: Facts) -> Comparison | None:
        """Return which of two files was edited; None where that cannot be seen."""
        pair = one.path, other.path
        if pair not in self._known:
            found = self._judge.compare_edits(*pair)
            self._known[pair] = None if found is None else self._add_detail(found, one, other)
        return self._known[pair]

    def _add_detail(self, found: Comparison, one: Facts, other: Facts) -> Comparison:
        """Add what only the files' own pixels show, if they can be read."""
        if not (one.width and other.width):
            return found
        own, others = self._colours.of(one.path), self._colours.of(other.path)
        if own is not None and others is not None:
            found = compare_colours(found, own, others)
        sizes = (one.width, one.height), (other.width, other.height)
        dated = bool(one.taken), bool(other.taken)
        trusted = dated[0] and not dated[1], dated[1] and not dated[0]
        try:
            found = compare_detail(found, sizes, lambda: (self._decode(one.path), self._decode(other.path)), trusted)
        except ImageError:
            return found
        if not 1 / MAX_DENSITY < found.reference.density < MAX_DENSITY:
            return found
        steps = [self._quantisations.of(facts.path) if facts.form in MEASURED else None for facts in (one, other)]
        query, reference = (
            replace(side, quantisation=step) for side, step in zip((found.query, found.reference), steps, strict=True)
        )
        return replace(found, query=query, reference=reference)

    def _decode(self, path: Path) -> NDArray[np.uint8]:
        pixels = self._pixels.of(path)
        if pixels is None:
            raise ImageError(path, "cannot be read")
        return pixels


def choose_least_edited(largest: Facts, others: Iterable[Facts], compare: Comparing) -> tuple[Facts, str] | None:
    """Choose the file to keep instead of the largest one, and give the reason; None where the largest one is to be kept.

    Args:
        largest: The file with the most pixels.
        others: Files that are certainly copies of it, the largest first.
        compare: Compares two of them.
    """
    copies = [largest, *islice(others, MAX_COMPARED)]
    kept, why = largest, ""
    for other in copies[1:]:
        found = compare(kept, other)
        if found is None or found.reference.cropped:
            continue
        own, theirs, unclear = _sort_changes(found)
        if own or unclear:  # the majority of the copies says which of the two was edited
            usual = [find_usual(file, copies, compare) for file in (kept, other)]
            edited = [change for change in unclear if change in usual[1] - usual[0]]
            theirs += [change for change in unclear if change not in edited]
            own = [change for change in own if change not in usual[0]] + edited
        elif _compare_compression(found, kept, other) == "kept":
            own = ["was compressed more, or once more"]
        if theirs or not own or (found.reference.density < MIN_DENSITY and not found.query.enlarged):
            continue
        size = f"{kept.width} × {kept.height}"
        kept, why = other, f"{LEAST_EDITED}: {text_of(kept.path)}, {size}, {' and '.join(own)}"
    return (kept, why) if why else None


def find_usual(file: Facts, copies: Iterable[Facts], compare: Comparing) -> frozenset[str]:
    """Return the changes that were not made to a file, as most of its certain copies are like it."""
    others = islice((other for other in copies if other.path != file.path), MAX_COMPARED)
    found = [one for one in (compare(file, other) for other in others) if one is not None]
    unlike = Counter(change for one in found for change in {*one.query.changes, *one.reference.changes})
    changes = COVERED, FRAMED, TURNED, RECOLOURED
    return frozenset(change for change in changes if len(found) - unlike[change] >= max(MIN_MAJORITY, 2 * unlike[change]))


def find_advantage(
    kept: Facts, file: Facts, compare: Comparing, usual: frozenset[str] = frozenset(), distrusted: bool = False
) -> str:
    """Return what a file has that the kept one, certainly a copy of it, lacks, in words; empty for nothing.

    Args:
        kept: The file that is kept.
        file: The other one.
        compare: Compares the two.
        usual: The changes that were not made to the kept file.
        distrusted: Whether the kept file is one for the changes that were made to larger ones.
    """
    found = compare(kept, file)
    if found is None:
        return ""
    own, theirs, unclear = _sort_changes(found)
    harmless = {TURNED, RECOLOURED, FRAMED} if found.reference.plain else {TURNED, RECOLOURED}
    known = usual & harmless  # what was done to the file is known, and nothing was added that somebody may miss
    edited = bool(known & {*theirs, *unclear})
    unclear = [change for change in unclear if change not in known]
    if distrusted and set(theirs) - known and order_by_size([kept, file])[0] is file:
        return "it is the larger file"
    if own:
        return f"the kept file {' and '.join(own)}"
    if unclear:
        return f"one of the two {' and '.join(unclear)}"
    if found.reference.covered:
        return "it has something that the kept file lacks"  # a caption, or another name in the same form
    if found.differing >= MIN_DIFFERING:
        return "a part of the two differs"
    if found.query.cropped:
        return "it shows more than the kept file"
    if found.reference.density > MAX_DENSITY and not (found.reference.enlarged or found.reference.stretched):
        return "it shows more detail than the kept file"
    if _compare_compression(found, kept, file) == "kept":
        return "the kept file was compressed more, or once more"
    if not edited and _compare_compression(found, kept, file) == "unclear":
        return f"of {kept.form} and {file.form} with as many pixels, nothing says which was made of the other"
    return ""


def _sort_changes(found: Comparison) -> tuple[list[str], list[str], list[str]]:
    """Return the changes that were made to the query, to the reference, and to one of the two."""
    one, other = found.query.changes, found.reference.changes
    unclear = [change for change in one if change in other]
    return [change for change in one if change not in unclear], [change for change in other if change not in unclear], unclear


def _compare_compression(found: Comparison, kept: Facts, file: Facts) -> Literal["kept", "file", "unclear", ""]:
    """Return which of two copies with as many pixels was compressed more, or once more, and so was made of the other."""
    one, other = found.query.quantisation, found.reference.quantisation
    if not 1 / MAX_DENSITY < found.reference.density < MAX_DENSITY:
        return ""
    if found.reference.cropped:
        return "kept" if one and other and one.step > SEEN_RATIO * other.step else ""
    if bool(kept.taken) != bool(file.taken):
        return "file" if kept.taken else "kept"
    if one is None or other is None:
        return "unclear"
    if one.saved_again != other.saved_again and 1 / MAX_EARLIER_APART < one.step / other.step < MAX_EARLIER_APART:
        return "kept" if one.saved_again else "file"
    if one.step > MAX_STEPS_APART * other.step:
        return "kept"
    would_show = one.clear and other.step >= max(SEEN_STEP, SEEN_RATIO * one.step)  # in the kept file, if that was made of it
    return "file" if would_show else "unclear"
