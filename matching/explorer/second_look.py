"""The second look at what is found for a single picture, by local features and pixels, as a search of folders takes it."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.matching.candidates import choose_candidates
from image_copies.matching.files.facts import MEASURED_SIDE, measure_picture
from image_copies.matching.groups.planning import drop_flat
from image_copies.matching.index.filling import digest_or_none
from image_copies.matching.knowledge import known_pair
from image_copies.matching.matches import Match, Rule, rank_by_evidence
from image_copies.matching.verification.features import Features
from image_copies.matching.verification.judgement import Clues, Judgement, judge
from image_copies.matching.verification.pairs import (
    LastUsed,
    Read,
    Seen,
    compare_seen,
    find_features,
    see,
    verify_query,
)
from image_copies.matching.verification.registration import prepare_picture
from image_copies.matching.verification.shots import Shot

MAX_CACHED_FEATURES = 500  # references whose features are kept for the next picture, 0.08 MB each
MAX_CACHED_PICTURES = 50  # references whose pixels are kept, too, 0.6 MB each


@dataclass(frozen=True)
class SecondLook:
    """Verifies and judges the references found for pictures; those that were looked at last are not read again."""

    _features: LastUsed[Features] = field(default_factory=lambda: LastUsed(find_features, MAX_CACHED_FEATURES))
    _seen: LastUsed[Seen] = field(default_factory=lambda: LastUsed(see, MAX_CACHED_PICTURES))

    def look(self, picture: bytes | NDArray[np.uint8], found: Sequence[Match], rule: Rule, references: int) -> list[Match]:
        """Return what is confirmed by features or scores enough, the confirmed first, each with what it is by the pixels.

        Without a threshold nothing is verified, and all is returned. What shows nothing is left out.

        Args:
            picture: The bytes of a file, or pixels [h, w, 3].
            found: The nearest references, the best first.
            rule: When a pair counts as a copy.
            references: Number of references that were searched.
        """
        if not found:
            return []
        read: Read = partial(decode_rgb, picture) if isinstance(picture, bytes) else lambda side: picture
        query, copies, threshold = None, list(found), rule.threshold(references)
        with suppress(
            ImageError
        ):  # one whose whole cannot be decoded, smaller than what is compared, is known by its vector alone
            query = see(picture) if isinstance(picture, bytes) else Seen(prepare_picture(picture), Shot(), read)
        if threshold is not None:
            candidates = choose_candidates(found, rule.tail, references)
            evidence = verify_query(read, candidates, self._features) if query else [None] * len(found)
            copies = rule.select_verified(rank_by_evidence(found, evidence), threshold)
        digest = hashlib.sha256(picture).digest() if isinstance(picture, bytes) else None
        seen = {match.reference: self._seen.of(match.reference) for match in copies}
        flat = {path for path, one in [(found[0].query, query), *seen.items()] if one is not None and _is_flat(one)}
        return [
            replace(match, judgement=_judge(query, seen[match.reference], digest, match, threshold))
            for match in drop_flat(copies, flat)
        ]


def _is_flat(picture: Seen) -> bool:
    try:
        return measure_picture(picture.read(MEASURED_SIDE))[1]
    except ImageError:
        return False


def _judge(query: Seen | None, reference: Seen | None, digest: bytes | None, match: Match, threshold: float | None) -> Judgement:
    same_bytes = match.score == 0 and digest is not None and digest_or_none(match.reference) == digest
    known = known_pair(match, same_bytes, threshold)
    if same_bytes or query is None or reference is None:
        return judge(Clues(same_bytes=same_bytes, described=known.described))
    return compare_seen(query, reference, known)
