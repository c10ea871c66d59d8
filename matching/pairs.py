"""A second look at pairs of files: do they show the same thing in the same arrangement, and are they copies of each other?"""

import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.process import usable_cores
from image_copies.matching.index.verdicts import NOTHING_KEPT, Verdicts
from image_copies.matching.matches import Match
from image_copies.matching.verification import alignment
from image_copies.matching.verification.contents import (
    ContentsMatch,
    list_missing,
    match_contents,
    read_pages,
)
from image_copies.matching.verification.differences import (
    CLOSE_EXCESS,
    MIN_DIFFERING,
    measure_differences,
    shows_another_thing,
    shows_other_colours,
)
from image_copies.matching.verification.edits import Comparison, Edits, compare_edits
from image_copies.matching.verification.features import CHANGES, MAX_SIDE, Box, Change, Features, crop_features
from image_copies.matching.verification.geometry import Evidence, from_shares, verify
from image_copies.matching.verification.judgement import (
    AGREE,
    APART,
    EQUAL_BYTES,
    EQUAL_PIXELS,
    FEW_FEATURES,
    MAX_CERTAIN,
    MAX_FALSE_ALARMS,
    MAX_LIKELY,
    OTHER_MEDIAN,
    TOO_LITTLE,
    Judgement,
    judge,
)
from image_copies.matching.verification.picture import Picture
from image_copies.matching.verification.recompression import follow_by_compression
from image_copies.matching.verification.registration import Registration, register
from image_copies.matching.verification.words import TONES, describe_edits, list_edits

MAX_CACHED_FEATURES = 2000  # pictures whose features are kept in memory, 0.08 MB each
MAX_CACHED_PICTURES = 400  # pictures whose pixels are kept, too, 0.6 MB each
MAX_CROPS = 3  # of a query, looked at where the whole shows nothing
MAX_PAGES = 4  # of two documents with one cover that are compared beyond it
CROPPED_SIDE = 2 * MAX_SIDE  # pixels of a picture's short side from which its crops show as much as whole pictures do
CLOSE_SIDE = 2 * alignment.MAX_SIDE  # pixels of the longer side at which copies are looked at again
MIN_TONE_BLOCKS = 80  # blocks that must agree where the tones do not: a disc of one colour is like any other one
ALIKE = "the same pixels are shown"
PART_DIFFERS = "a part of the two differs"
OTHER_THING = "a part may show another thing"
T = TypeVar("T")


@contextmanager
def share_cores(most: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Open a pool with a thread for each core, or `most`; what each of them calls, OpenCV and BLAS, takes no further ones."""
    cv2.setNumThreads(1)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(min(usable_cores(), most or usable_cores())) as pool:
        yield pool


@dataclass
class LastUsed(Generic[T]):
    """What was made of the files that were looked at last.

    Attributes:
        make: Makes it of a file; raises ImageError for one that cannot be read.
        size: Maximum number of files.
    """

    make: Callable[[Path], T]
    size: int
    _made: OrderedDict[Path, T | None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, path: Path) -> T | None:
        """Return what is made of a file; None where it cannot be read."""
        with self._lock:
            if path in self._made:
                self._made.move_to_end(path)
                return self._made[path]
        try:
            made = self.make(path)
        except ImageError:
            made = None
        with self._lock:
            self._made[path] = made
            while len(self._made) > self.size:
                self._made.popitem(last=False)
        return made

    def require(self, path: Path) -> T:
        """Return what is made of a file.

        Raises:
            ImageError: It cannot be read.
        """
        made = self.of(path)
        if made is None:
            raise ImageError(path, "cannot be read")
        return made


Read = Callable[[int | None], NDArray[np.uint8]]  # returns a picture's pixels, reduced at most to this short side; None: whole


def find_features(path: Path) -> Features:
    """Find the features of a file by which pairs are verified.

    Raises:
        ImageError: it cannot be read.
    """
    return Picture(path).features


class PairJudge:
    """Judges pairs of files; pictures that were judged last are not read again."""

    def __init__(self, kept: int = MAX_CACHED_PICTURES, verdicts: Verdicts = NOTHING_KEPT) -> None:
        """Keep so many pictures that were judged last, and the features of ten times as many that were verified."""
        self.verdicts = verdicts
        self._pictures, self._features = LastUsed(Picture, kept), LastUsed(find_features, 10 * kept)
        self._edits: dict[tuple[Path, Path], Comparison] = {}  # of the certain pairs

    def see(self, path: Path) -> Picture:
        """Return a file as it is judged."""
        return self._pictures.require(path)

    def verify(
        self, query: Picture, pairs: Sequence[Match], changes: Sequence[Sequence[Change]], pool: ThreadPoolExecutor
    ) -> list[Evidence | None]:
        """Look at a query that is no file and its references, the best first, as `verify_pairs` does; a pool finds features."""
        looked_at = [pair.reference for pair, undone in zip(pairs, changes, strict=True) if undone]
        deque(pool.map(self._features.of, looked_at), maxlen=0)

        return verify_query(lambda: query.features, query.read, pairs, changes, self._features, self.verdicts)

    def judge(self, pair: Match, threshold: float | None = -np.inf, query: Picture | None = None) -> Judgement:
        """Return the class of a pair; of files that cannot be read, by what is known of them.

        Args:
            pair: The pair.
            threshold: The lowest score of a copy; None where none is known.
            query: The query, if that is no file.
        """
        if pair.same_bytes:
            return EQUAL_BYTES
        described = threshold is not None and pair.score >= threshold
        far = pair.evidence is None and pair.expected_false_alarms is not None and pair.expected_false_alarms <= MAX_FALSE_ALARMS

        def compare() -> tuple[Judgement, Comparison | None]:
            first = query or self.see(pair.query)
            return _compare_seen(first, self.see(pair.reference), pair.evidence, described, far)

        try:
            given = described, pair.evidence, far
            judgement, edits = self.verdicts.ask(pair.files, "pair", given, compare, Judgement, Comparison, Edits)
        except ImageError:
            return judge(None, described=described)
        if edits is not None and query is None:
            self._edits[pair.query, pair.reference] = edits
        return judgement

    def compare_edits(self, one: Path, other: Path) -> Comparison | None:
        """Return which of two files was edited; None where they are not certainly copies, or show the same pixels."""
        known = self._edits.get((one, other)), self._edits.get((other, one))
        if known == (None, None):
            self.judge(Match(one, other))
            return self._edits.get((one, other))
        return known[0] or (known[1].turned() if known[1] else None)

    def judge_all(self, pairs: Sequence[Match], threshold: float | None = -np.inf) -> list[Judgement]:
        """Return the class of each pair, as `judge` does, on all cores."""
        with (
            share_cores() as pool,
            tqdm(total=len(pairs), desc="comparing pixels", unit="pair", leave=False) as bar,
        ):
            found = []
            for judgement in pool.map(partial(self.judge, threshold=threshold), pairs):
                found.append(judgement)
                bar.update()
        return found


def _compare_seen(
    query: Picture, reference: Picture, evidence: Evidence | None, described: bool, far: bool
) -> tuple[Judgement, Comparison | None]:
    """Return the class of two pictures and, if one certainly is a copy of the other, which of them was edited."""
    if np.array_equal(query.pixels, reference.pixels) and _have_same_pixels(query, reference):
        return _judge_alike(query, reference), None
    registration = register(query, reference, evidence)
    far_beyond = far and min(_count_features(query), _count_features(reference)) < FEW_FEATURES
    judgement = judge(registration, (query.shot, reference.shot), described, far_beyond, verified=evidence is not None)
    if registration is None or judgement.kind != "certain":
        return judgement, None
    if conflict := _match(query, reference, False).conflict:
        if page := _find_other_page(query, reference):
            return Judgement("same scene", f"the first pages agree, page {page} shows something else in each", APART), None
        return Judgement("likely", f"{conflict}; {judgement.reason}", MAX_LIKELY), None
    edits = compare_edits(registration.aligned, query.pixels.shape, reference.pixels.shape)
    said = list_edits(edits, query.pixels, reference.pixels, registration.aligned.negative)
    doubt, differing = _find_doubt(query, reference, registration, edits, said)
    if doubt:
        return Judgement("likely", judgement.reason.replace(AGREE, doubt), MAX_LIKELY), None
    alike = not said and query.pixels.shape == reference.pixels.shape  # smaller pictures are less sharp, too
    said += ["blurred"] * (alike and edits.query.blurred != edits.reference.blurred)
    judgement = replace(judgement, reason=judgement.reason.replace(AGREE, describe_edits(said)))
    return judgement, replace(edits, differing=differing)


def _find_doubt(
    query: Picture, reference: Picture, registration: Registration, edits: Comparison, said: Sequence[str]
) -> tuple[str, float]:
    """Return why a part of two pictures that agree is not that of a copy, in words, and how far their parts differ.

    Args:
        query: One picture.
        reference: The other.
        registration: The two laid on each other.
        edits: What is seen of them.
        said: What tells them apart, in words.
    """
    aligned = registration.aligned
    differences = measure_differences(aligned)
    if shows_another_thing(aligned, differences):
        return OTHER_THING, 0.0
    if registration.agreement.blocks < MIN_TONE_BLOCKS and not TONES.isdisjoint(said):
        return TOO_LITTLE, 0.0
    if edits.query.covered or edits.reference.covered or registration.agreement.is_covered:
        return "", float(differences.max())
    if shows_other_colours(aligned, query.pixels, reference.pixels):
        return PART_DIFFERS, 0.0
    closer = _look_closer(query, reference, edits, aligned.negative)
    close = differences if closer is None else measure_differences(closer)
    differing = float(min(differences.max(), close.max()))
    plain = all(word.startswith("cropped") for word in said)
    doubted = plain and differing >= MIN_DIFFERING
    if closer is not None and close.max() > CLOSE_EXCESS:
        doubted = doubted or shows_another_thing(closer, close)
    return (PART_DIFFERS if doubted and not _follow(query, reference, edits) else ""), differing


def _look_closer(query: Picture, reference: Picture, edits: Comparison, negative: bool) -> alignment.Aligned | None:
    """Lay two pictures on each other with more pixels; None where one has no more, or cannot be read any more."""
    shown = []
    with suppress(ImageError):
        for seen in (query, reference):
            height, width = seen.pixels.shape[:2]
            pixels = seen.read(round(CLOSE_SIDE * min(height, width) / max(height, width)))
            if max(pixels.shape) > alignment.MAX_SIDE:
                shown.append(alignment.reduce_picture(pixels, CLOSE_SIDE))
    if len(shown) < 2:
        return None
    homography = from_shares(shown[1].shape) @ edits.homography @ alignment.invert(from_shares(shown[0].shape))
    return alignment.align(shown[0], shown[1], homography, negative)


def _follow(query: Picture, reference: Picture, edits: Comparison) -> bool:
    """Whether one of two pictures is what the other one gives when it is compressed."""
    with suppress(ImageError):
        own, theirs = query.read(None), reference.read(None)
        files = query.content, reference.content
        homography = from_shares(theirs.shape) @ edits.homography @ alignment.invert(from_shares(own.shape))
        back = alignment.invert(homography)
        left = follow_by_compression(files[1], theirs, own, homography, files[0])
        return left is not None or follow_by_compression(files[0], own, theirs, back, files[1]) is not None
    return False


def _find_other_page(query: Picture, reference: Picture) -> int | None:
    """Return the number of the page, from 2, that two documents with one cover do not share; None for none of those looked at."""
    with suppress(ImageError):
        both = zip(read_pages(query.file), read_pages(reference.file), strict=False)
        for number, pages in enumerate(islice(both, MAX_PAGES), 2):
            one, other = map(Picture, pages)
            if min(_count_features(one), _count_features(other)) < FEW_FEATURES:
                continue
            found = register(one, other)
            if found is None or found.agreement.median < OTHER_MEDIAN:
                return number
    return None


def _count_features(picture: Picture) -> int:
    return len(picture.close_features.points)


def _have_same_pixels(query: Picture, reference: Picture) -> bool:
    try:
        return np.array_equal(query.read(None), reference.read(None))
    except ImageError:
        return False


def _judge_alike(query: Picture, reference: Picture) -> Judgement:
    """Judge two files that show the same pixels first."""
    match = _match(query, reference, True)
    if match.same:
        return EQUAL_PIXELS
    if match.conflict:
        said = f"{ALIKE}, but {match.conflict}"
        return Judgement("same scene", said, APART) if match.apart else Judgement("likely", said, MAX_LIKELY)
    one, other = query.contents, reference.contents
    more = list_missing(one, other) + list_missing(other, one)
    return Judgement("certain", f"{ALIKE}, but one file has {', '.join(more)}" if more else ALIKE, MAX_CERTAIN)


def _match(query: Picture, reference: Picture, shown_alike: bool) -> ContentsMatch:
    """Compare all that two files hold, by what is known of them."""
    try:
        held = query.contents, reference.contents
    except ImageError as error:
        return ContentsMatch(False, f"what they hold cannot be compared: {error}")
    return match_contents(query.file, reference.file, held, shown_alike)


def verify_two(first: Path, second: Path) -> Evidence | None:
    """Look at two pictures; None where nothing confirms that one copies the other."""
    return verify_pairs([Match(first, second)], [CHANGES])[0]


def verify_pairs(
    pairs: Sequence[Match],
    changes: Sequence[Sequence[Change]],
    find: Callable[[Path], Features] = find_features,
    verdicts: Verdicts = NOTHING_KEPT,
) -> list[Evidence | None]:
    """Look at pairs, a query's best first; None for each where nothing confirms that one copies the other.

    Args:
        pairs: The pairs.
        changes: The changes of the query that are undone, for each pair; one with none of them is not looked at.
        find: Finds the features of a file; one that it cannot read is like one without features.
        verdicts: What is known of pairs that were looked at before.
    """
    features = LastUsed(find, MAX_CACHED_FEATURES)
    by_query: dict[Path, list[int]] = defaultdict(list)
    for row, pair in enumerate(pairs):
        if changes[row]:
            by_query[pair.query].append(row)

    def look(item: tuple[Path, list[int]]) -> list[tuple[int, Evidence | None]]:
        path, rows = item
        own, read = partial(features.require, path), partial(decode_rgb, path)
        found = verify_query(own, read, [pairs[row] for row in rows], [changes[row] for row in rows], features, verdicts)
        return list(zip(rows, found, strict=True))

    evidence: list[Evidence | None] = [None] * len(pairs)
    with share_cores() as pool, tqdm(total=sum(map(len, by_query.values())), desc="verifying", unit="pair", leave=False) as bar:
        for found in pool.map(look, by_query.items()):
            for row, one in found:
                evidence[row] = one
            bar.update(len(found))
    return evidence


def verify_query(
    own: Callable[[], Features],
    read: Read,
    pairs: Sequence[Match],
    changes: Sequence[Sequence[Change]],
    features: LastUsed[Features],
    verdicts: Verdicts,
) -> list[Evidence | None]:
    """Look at a query and its references as `verify_pairs` does.

    Args:
        own: Finds the query's features.
        read: Reads the query's pixels.
        pairs: Those of one query, the best first. Where the whole shows nothing, the crops by which the first MAX_CROPS were
            found are looked at, with all changes: on a page the strongest features are its letters.
        changes: Those that are undone, for each pair.
        features: Those of references.
        verdicts: What is known of pairs that were looked at before.
    """
    query = cache(lambda: replace(own()))  # its mirror image and negative are kept for all its references, and no longer
    closer = cache(lambda: read(CROPPED_SIDE))

    def look(pair: Match, undone: Sequence[Change], crop: Box | None = None) -> Evidence | None:
        def find() -> Evidence | None:
            other = features.require(pair.reference)
            shown = query() if crop is None else crop_features(closer(), crop, query())
            return verify(shown, other, changes=undone)

        with suppress(ImageError):  # one may have gone meanwhile
            return verdicts.ask(pair.files, "evidence", (undone, crop), find, Evidence)
        return None

    found: list[Evidence | None] = []
    crops = 0
    for pair, undone in zip(pairs, changes, strict=True):
        evidence = look(pair, undone) if undone else None
        if evidence is None and pair.crop is not None and undone == CHANGES and crops < MAX_CROPS:
            crops += 1
            evidence = look(pair, undone, pair.crop)
        found.append(evidence)
    return found
