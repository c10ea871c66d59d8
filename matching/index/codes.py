"""Codes of an index's vectors, for approximate search: inverted lists with product quantisation (IVF-PQ, fast scan).

They are a Faiss file of the first rows of an index (`search.py`), and can be made again from these. It holds two codes
of each vector in the same lists: coarse ones tell copies from all else, and are compared three times as fast as the fine ones,
which tell neighbours at any distance apart.

H. Jégou, M. Douze, C. Schmid: Product quantization for nearest neighbor search (2011). F. André, A.-M. Kermarrec,
N. Le Scouarnec: Cache locality is not enough: high-performance nearest neighbor search with product quantization fast scan
(2015).
"""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.files import whole_file
from image_copies.submissions.search.neighbours import Rows

from ..threshold import Floats, choose_sample
from .store import CODE_FILES, Store, count_changes

MIN_CODED_CONTENTS = 500_000  # below this, no codes: one query's exact search takes less than 0.05 s
# inverted lists per square root of the number of contents; fewer where there are too few to train them
LISTS_PER_ROOT = 4
# lists are made again once so many times as many are due: the index holds four times the contents
MAX_GROWTH = 2
# lists searched for a query's copies, times the number of lists to this power: 905 of 4,000 (docs/scale.md);
PROBED_LISTS = 1.8
PROBED_LISTS_POWER = 0.75  # among more lists, copies scatter over more of them, but over a smaller share
# share of the lists, if more, searched for neighbours at any distance, which scatter over many lists
PROBED_LIST_SHARE = 0.5
COARSE_COORDINATES = 4  # that share 4 bits of a coarse code, where this divides the number of dimensions
TRAINING_VECTORS_PER_LIST = 64
KMEANS_ROUNDS = 10  # iterations of k-means, for the lists and for the codes
# codes are added once more rows, and a larger share of the coded ones, lack them
MIN_UNCODED, UNCODED_SHARE = 20_000, 0.01
VECTORS_PER_BLOCK = 65_536  # vectors encoded at once
NAME = re.compile(r"codes-(\d+)\.faiss")  # of the state of the database
Take = Callable[[Rows], Floats]  # returns vectors [m, d] by their rows [m]


def search_codes(index: Any, queries: Floats, depth: int, near: bool) -> Rows:
    """Return candidates for the nearest of each query [n, d]: rows int64 [n, depth], −1 where there are fewer.

    `near` looks for copies that are reported, in few lists; else for any neighbours.
    """
    import faiss

    codes: Any = faiss.downcast_index(index.base_index if near else index.refine_index)
    probed = PROBED_LISTS * codes.nlist**PROBED_LISTS_POWER if near else PROBED_LIST_SHARE * codes.nlist
    codes.nprobe = min(max(1, round(probed)), codes.nlist)
    rows: Rows = codes.search(queries, depth)[1]
    return rows


def open_codes(store: Store, searched: NDArray[np.bool_], take: Take) -> Any:
    """Open the codes of an index; missing and damaged ones are made again, and those of many new rows added.

    Args:
        store: The index.
        searched: Which of its rows are vectors, bool [n].
        take: Returns them.

    Raises:
        UserError: The disk is full.
    """
    import faiss  # imported here: exact search works without it

    count, others = len(searched), np.flatnonzero(searched)
    index = _find_codes(store, count, faiss.IO_FLAG_MMAP_IFC)
    if index is not None and count - index.ntotal <= max(MIN_UNCODED, UNCODED_SHARE * index.ntotal):
        return index
    lists = 0 if index is None else faiss.extract_index_ivf(faiss.downcast_index(index.base_index)).nlist
    renewed = count_lists(count) > MAX_GROWTH * lists
    index = _train_codes(others, take) if renewed else _find_codes(store, count, 0)
    for first in range(index.ntotal, count, VECTORS_PER_BLOCK):
        rows = np.arange(first, min(first + VECTORS_PER_BLOCK, count))
        # Zeros would be nearer to many than their neighbours.
        rows = np.where(searched[rows], rows, others[rows % len(others)])
        index.add(take(rows))
    written = store.folder / f"codes-{count_changes(store)}.faiss"
    with whole_file(written) as temporary:
        faiss.write_index(index, str(temporary))
    for other in set(store.folder.glob(CODE_FILES)) - {written}:
        with suppress(OSError):  # Windows keeps what another process has mapped: the next change removes it
            other.unlink()
    return index


def count_lists(contents: int) -> int:
    """Return the number of lists due for so many contents."""
    return max(1, min(round(LISTS_PER_ROOT * math.sqrt(contents)), contents // TRAINING_VECTORS_PER_LIST))


def _find_codes(store: Store, most: int, flags: int) -> Any:
    """Open the newest codes of at most so many rows, of this state of the database or an earlier one; None without any."""
    import faiss

    now = count_changes(store)
    named = [
        (int(name[1]), path) for path in store.folder.glob(CODE_FILES) if (name := NAME.fullmatch(path.name))
    ]
    for _, path in sorted((own for own in named if own[0] <= now), reverse=True):
        with suppress(RuntimeError):  # it is damaged, or another process has removed it
            index = faiss.read_index(str(path), flags)
            if index.d == store.dimensions and index.ntotal <= most:
                return index
    return None


def _train_codes(rows: Rows, take: Take) -> Any:
    """Train codes on a sample of the vectors that are searched, by their rows [n], evenly spread; they hold none yet."""
    import faiss

    lists = count_lists(len(rows))
    sample = take(rows[choose_sample(len(rows), TRAINING_VECTORS_PER_LIST * lists)])
    dimensions = sample.shape[1]
    codes = dimensions // math.gcd(dimensions, COARSE_COORDINATES), dimensions
    coarse, fine = list[Any](faiss.index_factory(dimensions, f"IVF{lists},PQ{part}x4fs") for part in codes)
    coarse.cp.niter = KMEANS_ROUNDS
    coarse.cp.max_points_per_centroid = TRAINING_VECTORS_PER_LIST
    coarse.pq.cp.niter = fine.pq.cp.niter = KMEANS_ROUNDS
    coarse.train(sample)
    fine.quantizer.add(coarse.quantizer.reconstruct_n(0, lists))
    fine.train(sample)
    return faiss.IndexRefine(coarse, fine)
