"""The descriptor that ships as a signal of Meta's threatexchange; a signal is a vector, 256 numbers of 16 bits in base64.

pip install '.[threatexchange]'
threatexchange config extensions add image_copies.matching.threatexchange
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import numpy as np
from threatexchange.content_type.content_base import ContentType
from threatexchange.content_type.photo import PhotoContent
from threatexchange.extensions.manifest import ThreatExchangeExtensionManifest
from threatexchange.signal_type.index import (
    IndexMatch,
    SignalSimilarityInfoWithSingleDistance,
    SignalTypeIndex,
)
from threatexchange.signal_type.signal_base import BytesHasher, SignalComparisonResult, SimpleSignalType

from image_copies.data.arrays import Float32s
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError

from .commands.interface import open_shipped
from .files.facts import measure_picture

DIMENSIONS = 256
# Squared, of vectors of unit length. Of 3,315 photographs without copies, 1 in 100 would have one so near among 100,000 others
# (extrapolated, as docs/matching.md says of thresholds).
MAX_DISTANCE = 0.37


class ImageCopySignal(SimpleSignalType, BytesHasher):
    """A picture by its vector: edited copies are near each other."""

    @classmethod
    def get_content_types(cls) -> list[type[ContentType]]:
        """Return what has such signals: photographs."""
        return [PhotoContent]

    @classmethod
    def get_index_cls(cls) -> type[SignalTypeIndex[Any]]:
        """Return the index that searches signals."""
        return ImageCopyIndex

    @classmethod
    def validate_signal_str(cls, signal_str: str) -> str:
        """Return the signal without blanks around it.

        Raises:
            ValueError: It is none.
        """
        _decode(signal_str.strip())
        return signal_str.strip()

    @classmethod
    def hash_from_bytes(cls, bytes_: bytes) -> str:
        """Return the signal of a picture; "" of one that cannot be decoded or shows nothing, such as a single colour."""
        try:
            pixels = decode_rgb(bytes_)
        except ImageError:
            return ""
        _, flat = measure_picture(pixels)
        return "" if flat else _encode(open_shipped(None).extract_picture(pixels)[0])

    @classmethod
    def compare_hash(
        cls, hash1: str, hash2: str, threshold: float = MAX_DISTANCE
    ) -> SignalComparisonResult:
        """Compare two signals by their squared distance."""
        distance = float(np.square(_decode(hash1) - _decode(hash2)).sum())
        return SignalComparisonResult.from_simple_dist(distance, threshold)

    @staticmethod
    def get_examples() -> list[str]:
        """Return signals of no picture."""
        return [_encode(row) for row in np.eye(2, DIMENSIONS, dtype=np.float32)]


class ImageCopyIndex(SignalTypeIndex[Any]):
    """Compares a signal with all that were added."""

    def __init__(self) -> None:
        self.vectors = list[Float32s]()
        self.entries = list[Any]()
        self.stacked = np.empty((0, DIMENSIONS), np.float32)

    def add(self, signal_str: str, entry: Any) -> None:
        """Add a signal, with what is known of it."""
        self.vectors.append(_decode(signal_str))
        self.entries.append(entry)

    def query(self, query: str) -> Sequence[IndexMatch[Any]]:
        """Return what is known of the signals that match, the nearest first."""
        if len(self.stacked) < len(self.vectors):
            self.stacked = np.stack(self.vectors)
        distances = np.square(self.stacked - _decode(query)).sum(axis=1)
        near = [
            row for row in np.argsort(distances, kind="stable").tolist() if distances[row] <= MAX_DISTANCE
        ]
        return [
            IndexMatch(SignalSimilarityInfoWithSingleDistance(float(distances[row])), self.entries[row])
            for row in near
        ]


TX_MANIFEST = ThreatExchangeExtensionManifest(signal_types=(ImageCopySignal,))


def _encode(vector: Float32s) -> str:
    return base64.b64encode(vector.astype("<f2").tobytes()).decode()


def _decode(signal: str) -> Float32s:
    """Return the vector [256] of a signal.

    Raises:
        ValueError: It is no signal.
    """
    try:
        vector = np.frombuffer(base64.b64decode(signal, validate=True), "<f2").astype(np.float32)
    except (binascii.Error, ValueError):
        vector = np.empty(0, np.float32)
    if vector.shape != (DIMENSIONS,) or not abs(np.linalg.norm(vector) - 1) < 0.01:
        raise ValueError(
            f"{signal[:20]!r}… is no signal: expected a vector of unit length, {DIMENSIONS} float16 in base64."
        )
    return vector
