"""Faiss's own GPU for approximate indexes, where its build and a card are there: clustering of their lists, and search.

Clusters found on a GPU are not those of the CPU, to the last bits, so that an index trained there is another one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import faiss

from image_copies.data.errors import UserError
from image_copies.data.process import process_rank_on_machine

REMEDY = "Leave out --on-gpu."


def find_own_gpu() -> int | None:
    """Return the number of this process's GPU for Faiss; None where its build can use none, or it sees none."""
    gpus = faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else 0
    return process_rank_on_machine() % gpus if gpus else None


def require_own_gpu() -> int:
    """Return the number of this process's GPU for Faiss.

    Raises:
        UserError: There is none.
    """
    own = find_own_gpu()
    if own is None:
        raise UserError(
            "Faiss finds no GPU here: it takes the package faiss-gpu with the libraries of its CUDA version, and a card. "
            + REMEDY
        )
    return own


@contextmanager
def cluster_on_gpu(index: faiss.Index) -> Iterator[None]:
    """Let Faiss cluster the vectors that an index with inverted lists is trained on, within the block, on this process's GPU.

    Raises:
        UserError: There is no GPU.
    """
    own = require_own_gpu()
    lists: Any = faiss.try_extract_index_ivf(index)
    if lists is None:
        yield
        return
    clustering = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), own, faiss.IndexFlatL2(lists.d))
    lists.clustering_index = clustering  # which Faiss does not own
    try:
        yield
    finally:
        lists.clustering_index = None


def copy_to_gpu(index: faiss.Index, name: str) -> faiss.Index:
    """Return a copy of an index in the memory of this process's GPU, which searches there.

    Args:
        index: The index, with its lists wherever they are.
        name: What it is called in messages.

    Raises:
        UserError: There is no GPU, its memory does not suffice, or Faiss has no such index for GPUs.
    """
    own = require_own_gpu()
    try:
        return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), own, index)
    except RuntimeError as error:
        raise UserError(f"Faiss cannot search {name} on the GPU: {str(error).splitlines()[0]} {REMEDY}") from error
