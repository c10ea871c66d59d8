"""Which of the files that are certainly copies of each other was edited least: the largest one need not be the original."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.names import text_of
from image_copies.matching.files.facts import Facts
from image_copies.matching.verification.colours import SIDE, compare_colours, reduce_colours
from image_copies.matching.verification.detail import compare_detail
from image_copies.matching.verification.edits import Comparison
from image_copies.matching.verification.pairs import LastUsed, PairJudge

Comparing = Callable[[Facts, Facts], Comparison | None]
LEAST_EDITED = "least edited"  # begins the reason to keep a file that is not the largest one
MAX_DECODED = 2  # pictures that are kept as a whole: the largest file of a group is compared with several
MAX_REDUCED = 400  # pictures of which the colours are kept, 0.05 MB each
MAX_COMPARED = 8  # files that are compared with the largest one
MIN_DENSITY = 0.5  # pixels per length of a file that is kept instead, of those of the largest one
MIN_DIFFERING = 0.005  # share of the blocks from which on two pictures of the same size may be two forms that were filled in
MAX_DENSITY = 1.1  # pixels per length up to which a file shows no more than the kept one
LOSSLESS = ("PNG", "BMP", "TIFF", "GIF", "WEBP")  # formats that keep, or may keep, every artefact of what they were made of


class EditComparer:
    """Compares files that are certainly copies of each other."""

    def __init__(self, judge: PairJudge) -> None:
        self._judge = judge
        self._pixels = LastUsed(decode_rgb, MAX_DECODED)
        self._colours = LastUsed(lambda path: reduce_colours(decode_rgb(path, short_side=SIDE)), MAX_REDUCED)
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
            return compare_detail(found, sizes, lambda: (self._decode(one.path), self._decode(other.path)), trusted)
        except ImageError:
            return found

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
    kept, why = largest, ""
    for _, other in zip(range(MAX_COMPARED), others, strict=False):
        found = compare(kept, other)
        if found is None or found.reference.cropped or set(found.reference.changes) - set(found.query.changes):
            continue
        own = [change for change in found.query.changes if change not in found.reference.changes]
        if not own:
            continue
        if found.reference.density < MIN_DENSITY and not found.query.enlarged:
            continue
        size = f"{kept.width} × {kept.height}"
        kept, why = other, f"{LEAST_EDITED}: {text_of(kept.path)}, {size}, {' and '.join(own)}"
    return (kept, why) if why else None


def find_advantage(kept: Facts, file: Facts, compare: Comparing) -> str:
    """Return what a file has that the kept one, certainly a copy of it, lacks, in words; empty for nothing."""
    found = compare(kept, file)
    if found is None:
        return ""
    unclear = [change for change in found.query.changes if change in found.reference.changes]
    own = [change for change in found.query.changes if change not in found.reference.changes]
    if own:
        return f"the kept file {' and '.join(own)}"
    if unclear:
        return f"one of the two {' and '.join(unclear)}"
    if found.reference.covered:
        return "it has something that the kept file lacks"  # a caption, or another name in the same form
    if found.differing >= MIN_DIFFERING and 1 / MAX_DENSITY < found.reference.density < MAX_DENSITY:
        return "a part of the two differs"
    if found.query.cropped:
        return "it shows more than the kept file"
    if found.reference.density > MAX_DENSITY and not (found.reference.enlarged or found.reference.stretched):
        return "it shows more detail than the kept file"
    if kept.form != file.form and {kept.form, file.form} & set(LOSSLESS) and found.reference.density > 1 / MAX_DENSITY:
        return f"of {kept.form} and {file.form} with as many pixels, nothing says which was made of the other"
    return ""
