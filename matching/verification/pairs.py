"""A second look at the nearest pairs: do they show the same thing in the same arrangement, and where?"""

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import cv2
from tqdm import tqdm

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.matching.matches import Match
from image_copies.matching.verification.features import MAX_SIDE, Features, local_features
from image_copies.matching.verification.geometry import Evidence, Views, verify

MAX_CACHED_PICTURES = 4000  # whose features are kept, 0.08 MB each
THREADS = min(2, os.cpu_count() or 1)


@dataclass
class FeatureCache:
    """Features of the pictures that were looked at last.

    Attributes:
        size: Maximum number of pictures.
    """

    size: int = MAX_CACHED_PICTURES
    _features: OrderedDict[Path, Features | None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, path: Path) -> Features | None:
        """Return the features of a picture; None where it cannot be read."""
        with self._lock:
            if path in self._features:
                self._features.move_to_end(path)
                return self._features[path]
        try:
            found = local_features(decode_rgb(path, short_side=MAX_SIDE // 2))
        except ImageError:
            found = None
        with self._lock:
            self._features[path] = found
            while len(self._features) > self.size:
                self._features.popitem(last=False)
        return found


def verify_two(first: Path, second: Path) -> Evidence | None:
    """Look at two pictures; None where nothing confirms that one copies the other."""
    features = FeatureCache()
    one, other = features.of(first), features.of(second)
    return verify(one, other) if one is not None and other is not None else None


def verify_matches(pairs: Sequence[Match]) -> list[Match]:
    """Look at every pair and note the evidence; confirmed pairs come first, by how many features agree, then the others."""
    features = FeatureCache()
    by_query: dict[Path, list[int]] = defaultdict(list)
    for row, match in enumerate(pairs):
        by_query[match.query].append(row)

    def look(rows: list[int]) -> list[tuple[int, Evidence | None]]:
        own = features.of(pairs[rows[0]].query)
        if own is None:
            return [(row, None) for row in rows]
        query, found = Views(own), []  # a query's mirror image and negative are made once for all its references
        for row in rows:
            reference = features.of(pairs[row].reference)
            found.append((row, None if reference is None else verify(query, reference)))
        return found

    cv2.setNumThreads(1)  # the threads below share the cores
    verified = list(pairs)
    with ThreadPoolExecutor(THREADS) as pool, tqdm(total=len(pairs), desc="verifying", unit="pair", leave=False) as bar:
        for found in pool.map(look, by_query.values()):
            for row, evidence in found:
                verified[row] = replace(pairs[row], evidence=evidence)
            bar.update(len(found))
    return sorted(verified, key=lambda match: (-(match.evidence.inliers if match.evidence else 0), -match.score))


def select_copies(pairs: Sequence[Match], threshold: float | None, most: int) -> list[Match]:
    """Return the pairs that score enough or are confirmed, at most `most` for a query.

    Args:
        pairs: Verified pairs, best first.
        threshold: Lowest score of a copy, at most 0; None if only evidence decides.
        most: Maximum number of references per query.
    """
    kept: list[Match] = []
    count: dict[Path, int] = defaultdict(int)
    for match in pairs:
        enough = threshold is not None and match.score >= threshold
        if (enough or match.evidence is not None or match.score == 0) and count[match.query] < most:
            kept.append(match)
            count[match.query] += 1
    return kept
