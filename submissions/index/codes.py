"""Codes of a stored index's vectors, for approximate search: inverted lists with product quantisation (IVF-PQ, fast scan).

Beside every file of vectors lies a file of their codes; one quantiser, trained on a sample of the vectors, makes them all. Both
can be made again from the vectors at any time. A file of codes names the vectors and the quantiser that it was made from, so
that a stale one is not taken.

H. Jégou, M. Douze, C. Schmid: Product quantization for nearest neighbor search (2011). F. André, A.-M. Kermarrec,
N. Le Scouarnec: Cache locality is not enough: high-performance nearest neighbor search with product quantization fast scan
(2015).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from submissions.index.segments import Segment, forget_files, keep_index, read_whole

MIN_CODED = 500_000  # contents; exact search of fewer takes less than .05 s for one query
LISTS = 512
PROBED_SHARE = 0.7  # of the lists that a query looks into; real descriptors fill so many dimensions that neighbours lie anywhere
VECTORS_PER_LIST = 64  # that the quantiser is trained on
GROWTH = 4  # the quantiser is trained again when there are so many times the contents it was trained for
KMEANS_ROUNDS = 10
VECTORS_PER_BLOCK = 16_384  # vectors that are coded at once
QUANTIZER_NAME = re.compile(r"quantizer-(\d+)-([0-9a-f]{16})\.faiss")


@dataclass(frozen=True)
class Quantizer:
    """What turns vectors into lists and codes.

    Attributes:
        digest: the beginning of its file's SHA-256.
        index: trained and empty.
    """

    digest: str
    index: faiss.Index


def open_codes(folder: Path, segments: Sequence[Segment]) -> list[faiss.Index | None]:
    """Return the codes of each segment, made where they are missing, damaged or stale; None for segments without a file."""
    count = sum(segment.ntotal for segment in segments)
    quantizer = _open_quantizer(folder, count) or _train(folder, segments, count)
    codes = [_codes(folder, segment, quantizer) if segment.digest else None for segment in tqdm(segments, "codes", leave=False)]
    forget_files(folder, "quantizer-*.faiss", {quantizer.digest})
    kept = {f"codes-{segment.digest}-{quantizer.digest}" for segment in segments}
    stale = [path for path in folder.glob("codes-*.faiss") if path.stem.rpartition("-")[0] not in kept]
    for path in stale:
        forget_files(folder, path.name, set())
    return codes


def _open_quantizer(folder: Path, count: int) -> Quantizer | None:
    for path in sorted(folder.glob("quantizer-*.faiss")):
        match = QUANTIZER_NAME.fullmatch(path.name)
        if match and count <= GROWTH * int(match[1]) and (index := read_whole(path)) is not None:
            return Quantizer(match[2], index)
    return None


def _train(folder: Path, segments: Sequence[Segment], count: int) -> Quantizer:
    dimensions = segments[0].index.d
    lists = min(LISTS, max(1, count // VECTORS_PER_LIST))
    index: Any = faiss.index_factory(dimensions, f"IVF{lists},PQ{dimensions}x4fs")  # 4 bits a coordinate
    index.cp.niter, index.cp.max_points_per_centroid, index.pq.cp.niter = KMEANS_ROUNDS, VECTORS_PER_LIST, KMEANS_ROUNDS
    index.train(_sample(segments, VECTORS_PER_LIST * lists))
    return Quantizer(keep_index(index, folder, f"quantizer-{count}"), index)


def _sample(segments: Sequence[Segment], count: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    held = sum(len(segment.numbers) for segment in segments)
    parts = []
    for segment in segments:
        own = len(segment.numbers)
        chosen = rng.choice(own, min(own, -(-count * own // held)), replace=False)
        parts.append(segment.vectors()[np.sort(chosen)])
    return np.concatenate(parts)


def _codes(folder: Path, segment: Segment, quantizer: Quantizer) -> Any:
    name = f"codes-{segment.digest}-{quantizer.digest}"
    index: Any = next((found for path in folder.glob(f"{name}-*.faiss") if (found := read_whole(path)) is not None), None)
    if index is None or index.ntotal != len(segment.numbers):
        index = faiss.clone_index(quantizer.index)
        vectors = segment.vectors()
        for first in range(0, len(vectors), VECTORS_PER_BLOCK):
            index.add(vectors[first : first + VECTORS_PER_BLOCK])
        keep_index(index, folder, name)
    index.nprobe = max(1, round(PROBED_SHARE * index.nlist))
    return index
