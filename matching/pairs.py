"""A second look at pairs of files: do they show the same thing in the same arrangement, and are they copies of each other?"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

import cv2
import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from image_copies.data.errors import ImageError
from image_copies.data.process import usable_cores

from .index.verdicts import NOTHING_KEPT, Verdicts
from .matches import Match
from .pair import Pair
from .verification.edits import Comparison
from .verification.features import CHANGES, MAX_SIDE, Change, Features, crop_features
from .verification.geometry import Evidence, verify
from .verification.judgement import EQUAL_BYTES, MAX_FALSE_ALARMS, Judgement, judge
from .verification.picture import Picture
from .views import find_features, list_crops

# pictures that are kept in memory, 0.6 MB each; of five times as many the features, 0.08 MB each
MAX_CACHED_PICTURES = 400
MAX_CROPS = 3  # of a query, looked at where the whole shows nothing
# pixels of a picture's short side from which its crops show as much as whole pictures do
CROPPED_SIDE = 2 * MAX_SIDE
T = TypeVar("T")


@contextmanager
def share_cores(most: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Open a pool with a thread for each core, or `most`; what each of them calls, OpenCV and BLAS, takes no further ones."""
    cv2.setNumThreads(1)
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(min(usable_cores(), most or usable_cores())) as pool,
    ):
        yield pool


class LastUsed(Generic[T]):
    """What was made of the files that were looked at last."""

    def __init__(self, make: Callable[[Path], T], size: int) -> None:
        """Keep what is made of so many files; `make` raises ImageError for one that cannot be read."""

        def find(path: Path) -> T | None:
            with suppress(ImageError):
                return make(path)
            return None

        self.of = lru_cache(size)(find)  # None for a file that cannot be read

    def require(self, path: Path) -> T:
        """Return what is made of a file.

        Raises:
            ImageError: It cannot be read.
        """
        made = self.of(path)
        if made is None:
            raise ImageError(path, "cannot be read")
        return made


class PairJudge:
    """Verifies and judges pairs of files; pictures that were looked at last are not read again."""

    def __init__(
        self,
        kept: int = MAX_CACHED_PICTURES,
        verdicts: Verdicts = NOTHING_KEPT,
        find: Callable[[Path], Features] = find_features,
    ) -> None:
        """Keep so many pictures that were judged last, and the features of five times as many, which `find` finds."""
        self.verdicts = verdicts
        self._pictures = LastUsed(Picture, kept)
        self._features = LastUsed(find, 5 * kept)
        self._edits: dict[tuple[Path, Path], Comparison] = {}  # of the certain pairs

    def see(self, path: Path) -> Picture:
        """Return a file as it is judged."""
        return self._pictures.require(path)

    def verify(
        self,
        query: Picture,
        pairs: Sequence[Match],
        changes: Sequence[Sequence[Change]],
        pool: ThreadPoolExecutor | None = None,
    ) -> list[Match]:
        """Look at a query and its references; return the pairs with what confirms that one copies the other, None for nothing.

        A file that cannot be read is like one without features.

        Args:
            query: The query.
            pairs: Its pairs, the best first. Where the whole shows nothing, the crops by which the first MAX_CROPS were found are
                looked at, with all changes: on a page the strongest features are its letters.
            changes: Those of the query that are undone, for each pair; a pair with none of them is not looked at.
            pool: Finds the features of references.
        """
        looked_at = [pair.reference for pair, undone in zip(pairs, changes, strict=True) if undone]
        if pool is not None:
            deque(pool.map(self._features.of, looked_at), maxlen=0)

        @cache
        def own() -> Features:
            source = query.source
            found = self._features.require(source) if isinstance(source, Path) else query.features
            # its mirror image and negative are kept for all its references, and no longer
            return replace(found)

        closer = cache(lambda: query.read(CROPPED_SIDE))

        def look(pair: Match, undone: Sequence[Change], crop: int | None = None) -> Evidence | None:
            def find() -> Evidence | None:
                other = self._features.require(pair.reference)
                shown = (
                    own() if crop is None else crop_features(closer(), list_crops(closer())[crop], own())
                )
                return verify(shown, other, changes=undone)

            with suppress(ImageError):  # one may have gone meanwhile
                return self.verdicts.ask(pair.files, "evidence", (undone, crop), find, Evidence)
            return None

        found = list[Match]()
        crops = 0
        for pair, undone in zip(pairs, changes, strict=True):
            evidence = look(pair, undone) if undone else None
            if evidence is None and pair.crop is not None and undone == CHANGES and crops < MAX_CROPS:
                crops += 1
                evidence = look(pair, undone, pair.crop)
            found.append(replace(pair, evidence=evidence))
        return found

    def verify_all(self, pairs: Sequence[Match], changes: Sequence[Sequence[Change]]) -> list[Match]:
        """Look at the pairs of many files, a query's best first, as `verify` does, on all cores; returned are they by queries."""
        by_query = defaultdict[Path, list[tuple[Match, Sequence[Change]]]](list)
        for pair, undone in zip(pairs, changes, strict=True):
            by_query[pair.query].append((pair, undone))

        def look(query: Path) -> list[Match]:
            own, undone = zip(*by_query[query], strict=True)
            return self.verify(Picture(query), own, undone)

        with share_cores() as pool:
            found = chain.from_iterable(pool.map(look, by_query))
            return list(tqdm(found, "verifying", len(pairs), leave=False, unit="pair"))

    def judge(
        self, pair: Match, threshold: float | None = -np.inf, query: Picture | None = None
    ) -> Judgement:
        """Return the class of a pair; of files that cannot be read, by what is known of them.

        Args:
            pair: The pair.
            threshold: The lowest score of a copy; None where none is known.
            query: The query, if that is no file.
        """
        if pair.same_bytes:
            return EQUAL_BYTES
        described = threshold is not None and pair.score >= threshold
        far = (
            pair.evidence is None
            and pair.expected_false_alarms is not None
            and pair.expected_false_alarms <= MAX_FALSE_ALARMS
        )

        def compare() -> tuple[Judgement, Comparison | None]:
            return Pair(
                query or self.see(pair.query), self.see(pair.reference), pair.evidence, described, far
            ).judge()

        try:
            given = described, pair.evidence, far
            judgement, edits = self.verdicts.ask(pair.files, "pair", given, compare, Judgement, Comparison)
        except ImageError:
            return judge(None, described=described)
        if edits is not None and query is None:
            self._edits[pair.files] = edits
        return judgement

    def compare_edits(self, one: Path, other: Path) -> Comparison | None:
        """Return which of two files was edited; None where they are not certainly copies, or show the same pixels."""
        known = self._edits.get((one, other)), self._edits.get((other, one))
        if known == (None, None):
            self.judge(Match(one, other))
            return self._edits.get((one, other))
        return known[0] or (known[1].exchange() if known[1] else None)

    def judge_all(self, pairs: Sequence[Match], threshold: float | None = -np.inf) -> list[Judgement]:
        """Return the class of each pair, as `judge` does, on all cores."""
        with share_cores() as pool:
            judged = pool.map(partial(self.judge, threshold=threshold), pairs)
            return list(tqdm(judged, "comparing pixels", len(pairs), leave=False, unit="pair"))
