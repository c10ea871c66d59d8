"""Searching references shard by shard: what the search for pairs and the search for neighbours have in common."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from image_copies.data.shards import Place, ShardWork, hold, run_shards, uses_engine
from image_copies.submissions.vectors.rows import RowsShard, VectorRows, divide_rows

REFERENCES_PER_SHARD = 50_000
PAIRS_WORTH_SENDING = 2**28  # a second of one core; with fewer, an engine would cost more than it saves
Found = TypeVar("Found")


def search_references(
    name: str,
    queries: NDArray[np.float32],
    references: VectorRows,
    search: Callable[[NDArray[np.float32], RowsShard, Place], Found],
    divide_here: bool,
) -> Iterator[Found]:
    """Yield what is found in each shard of the references [m, d], in their order, of queries [n, d]; few pairs are compared here.

    References in memory are one shard if this process searches them, unless they are to be divided here too. `name` is for the
    line of progress.
    """
    work = ShardWork(
        name=name,
        unit="reference",
        open=partial(hold, np.ascontiguousarray(queries)),
        work=search,
        size=len,
        uses_gpu=True,
    )
    few = len(queries) * len(references) < PAIRS_WORTH_SENDING
    whole = isinstance(references, np.ndarray) and not divide_here and (few or not uses_engine())
    shards = divide_rows(references, len(references) if whole else REFERENCES_PER_SHARD)
    return run_shards(work, shards, len(references), here=few)
