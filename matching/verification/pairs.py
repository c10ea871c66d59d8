"""A second look at the nearest pairs: do they show the same thing in the same arrangement, and where?"""

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import cv2
from tqdm import tqdm

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
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


def verify_pairs(pairs: Sequence[tuple[Path, Path]]) -> list[Evidence | None]:
    """Look at pairs of a query and a reference; None for each where nothing confirms that one copies the other."""
    features = FeatureCache()
    by_query: dict[Path, list[int]] = defaultdict(list)
    for row, (query, _) in enumerate(pairs):
        by_query[query].append(row)

    def look(rows: list[int]) -> list[tuple[int, Evidence | None]]:
        own = features.of(pairs[rows[0]][0])
        if own is None:
            return [(row, None) for row in rows]
        query, found = Views(own), []  # a query's mirror image and negative are made once for all its references
        for row in rows:
            reference = features.of(pairs[row][1])
            found.append((row, None if reference is None else verify(query, reference)))
        return found

    cv2.setNumThreads(1)  # the threads below share the cores
    evidence: list[Evidence | None] = [None] * len(pairs)
    with ThreadPoolExecutor(THREADS) as pool, tqdm(total=len(pairs), desc="verifying", unit="pair", leave=False) as bar:
        for found in pool.map(look, by_query.values()):
            for row, one in found:
                evidence[row] = one
            bar.update(len(found))
    return evidence
