"""The search that runs on a GPU, on the CPU's tensors: the same pairs and bits as NumPy's and Faiss's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from image_copies.models import device
from image_copies.pipeline import gpu_search
from image_copies.pipeline.gpu_search import TorchSearch
from image_copies.pipeline.run.step import search_on_gpu
from image_copies.submissions.ensemble.normalization import find_neighbours
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.search.backend import search_block, use_backend
from image_copies.submissions.search.exact import ScoredPairs, search_pairs

CPU = torch.device("cpu")


def same(one: ScoredPairs, other: ScoredPairs) -> bool:
    parts = ("queries", "references", "distances")
    return all(getattr(one, part).tobytes() == getattr(other, part).tobytes() for part in parts)


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 10**6),
    st.tuples(st.integers(1, 40), st.integers(1, 60)),
    st.integers(1, 500),
    st.tuples(st.integers(1, 50), st.integers(1, 70)),
    st.sampled_from(["ties", "plain", "far"]),
)
def test_pairs_and_scores_are_those_of_the_cpu(
    seed: int, shape: tuple[int, int], count: int, blocks: tuple[int, int], kind: str
) -> None:
    rng = np.random.default_rng(seed)
    make = (lambda size: rng.integers(0, 3, size)) if kind == "ties" else rng.standard_normal
    queries, references = (make((rows, 5)).astype(np.float32) for rows in shape)
    if kind == "far":  # an unreadable image of a submission
        queries[0], references[-1] = 1000, -1000
    backend = TorchSearch(CPU, *blocks)
    with use_backend(backend):
        found = search_pairs(queries, references, count)
    assert same(found, search_pairs(queries, references, count))


def test_candidates_are_few_at_a_larger_size() -> None:
    """The radius shrinks while blocks go by, or the card would be full of candidates."""
    rng = np.random.default_rng(0)
    references = scale_to_unit_length(rng.standard_normal((20_000, 64), dtype=np.float32))
    queries = scale_to_unit_length(references[:300] + 0.05 * rng.standard_normal((300, 64), dtype=np.float32))
    backend = TorchSearch(CPU, 100, 1500)
    found = backend.candidates(queries, references, 3000)
    assert found is not None and 3000 <= len(found[0]) < 3200
    with use_backend(backend):
        searched = search_pairs(queries, references, 3000)
    assert same(searched, search_pairs(queries, references, 3000))


def test_nearly_equal_distances_are_told_apart_and_equal_ones_are_in_the_order_of_rows() -> None:
    rng = np.random.default_rng(3)
    base = rng.standard_normal(64).astype(np.float32)
    queries, references = (base + 1e-4 * rng.standard_normal((n, 64)).astype(np.float32) for n in (40, 60))
    with use_backend(TorchSearch(CPU, 7, 9)):
        found = search_pairs(queries, references, 500)
    assert same(found, search_pairs(queries, references, 500))
    references = np.repeat(np.eye(4, dtype=np.float32), 3, axis=0)
    with use_backend(TorchSearch(CPU, 3, 5)):
        nearest = find_neighbours(np.eye(4, dtype=np.float32), references, 3)
    assert nearest.rows.tolist() == [[3 * row, 3 * row + 1, 3 * row + 2] for row in range(4)]
    assert (nearest.cosines == 1).all()


@pytest.mark.parametrize("metric", ["cosine", "distance"])
def test_neighbours_are_those_of_faiss(metric: str) -> None:
    rng = np.random.default_rng(1)
    queries, references = (scale_to_unit_length(rng.standard_normal((n, 32), dtype=np.float32)) for n in (50, 700))
    expected = search_block(queries, references, 10, metric)  # type: ignore[arg-type]
    with use_backend(TorchSearch(CPU, 16, 90)):
        values, rows = search_block(queries, references, 10, metric)  # type: ignore[arg-type]
    assert (rows == expected[1]).all() and values.dtype == np.float32
    np.testing.assert_allclose(values, expected[0], atol=2e-6)


def test_a_full_card_leaves_the_search_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")

    rng = np.random.default_rng(2)
    queries, references = (rng.standard_normal((n, 8)).astype(np.float32) for n in (9, 30))
    backend, expected = TorchSearch(CPU), (search_pairs(queries, references, 20), search_block(queries, references, 2, "cosine"))
    monkeypatch.setattr(backend, "_candidates", full)
    monkeypatch.setattr(backend, "_nearest", full)
    with use_backend(backend):
        assert same(search_pairs(queries, references, 20), expected[0])
        assert (search_block(queries, references, 2, "cosine")[1] == expected[1][1]).all()


def test_steps_search_on_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Noted(TorchSearch):
        def __init__(self, device: torch.device) -> None:
            asked.append(device.type)
            super().__init__(CPU)

        def _candidates(
            self, queries: NDArray[np.float32], references: NDArray[np.float32], count: int
        ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            asked.append("searched")
            return super()._candidates(queries, references, count)

    vectors = np.eye(3, dtype=np.float32)
    search = search_on_gpu()(search_pairs)
    monkeypatch.setattr(gpu_search, "TorchSearch", Noted)
    search(vectors, vectors, 3)
    assert asked == [] or torch.cuda.is_available()
    asked.clear()
    monkeypatch.setattr(device, "best_device", lambda: torch.device("cuda"))
    assert same(search(vectors, vectors, 3), search_pairs(vectors, vectors, 3))
    assert asked == ["cuda", "searched"]
    search_pairs(vectors, vectors, 3)
    assert len(asked) == 2
