"""The search that runs on a GPU, on the CPU's tensors: the same pairs and bits as NumPy's and Faiss's."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.models import device
from image_copies.pipeline import gpu_search
from image_copies.pipeline.gpu_search import TorchSearch
from image_copies.pipeline.run.step import search_on_gpu
from image_copies.submissions.ensemble.normalization import find_neighbours
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.search.neighbours import Candidates, Metric, Neighbours, ScoredPairs, use_device
from tests.networks import run_out_of_memory

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
    with use_device(backend):
        found = Neighbours(references).closest(queries, count)
    assert same(found, Neighbours(references).closest(queries, count))


def test_nearly_equal_distances_are_told_apart_and_equal_ones_are_in_the_order_of_rows() -> None:
    rng = np.random.default_rng(3)
    base = rng.standard_normal(64).astype(np.float32)
    queries, references = (base + 1e-4 * rng.standard_normal((n, 64)).astype(np.float32) for n in (40, 60))
    with use_device(TorchSearch(CPU, 7, 9)):
        found = Neighbours(references).closest(queries, 500)
    assert same(found, Neighbours(references).closest(queries, 500))
    references = np.repeat(np.eye(4, dtype=np.float32), 3, axis=0)
    with use_device(TorchSearch(CPU, 3, 5)):
        nearest = find_neighbours(np.eye(4, dtype=np.float32), references, 3)
    assert nearest.rows.tolist() == [[3 * row, 3 * row + 1, 3 * row + 2] for row in range(4)]
    assert (nearest.cosines == 1).all()


@pytest.mark.parametrize("metric", ["cosine", "distance"])
def test_neighbours_are_those_of_the_cpu(metric: Metric) -> None:
    rng = np.random.default_rng(1)
    queries, references = (scale_to_unit_length(rng.standard_normal((n, 32), dtype=np.float32)) for n in (50, 700))
    expected = Neighbours(references).nearest(queries, 10, metric)
    with use_device(TorchSearch(CPU, 16, 90)):
        found = Neighbours(references).nearest(queries, 10, metric)
    assert (found.rows == expected.rows).all() and found.values.tobytes() == expected.values.tobytes()


def test_a_full_card_leaves_the_search_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    queries, references = (rng.standard_normal((n, 8)).astype(np.float32) for n in (9, 30))
    searched, card = Neighbours(references), TorchSearch(CPU)
    expected, nearest = searched.closest(queries, 20), searched.nearest(queries, 2)
    monkeypatch.setattr(card, "_hold", run_out_of_memory)
    with use_device(card):
        assert same(searched.closest(queries, 20), expected)
        assert (searched.nearest(queries, 2).rows == nearest.rows).all()


def test_steps_search_on_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Noted(TorchSearch):
        def __init__(self, device: torch.device) -> None:
            asked.append(device.type)
            super().__init__(CPU)

        def within(self, *given: Any) -> Candidates | None:
            asked.append("searched")
            return super().within(*given)

    vectors = np.eye(3, dtype=np.float32)
    expected = Neighbours(vectors).closest(vectors, 3)
    search = search_on_gpu()(Neighbours(vectors).closest)
    monkeypatch.setattr(gpu_search, "TorchSearch", Noted)
    search(vectors, 3)
    assert asked == [] or torch.cuda.is_available()
    asked.clear()
    monkeypatch.setattr("image_copies.pipeline.run.step.has_gpu", lambda: True)
    monkeypatch.setattr(device, "best_device", lambda: torch.device("cuda"))
    assert same(search(vectors, 3), expected)
    assert asked[:2] == ["cuda", "searched"]
    count = len(asked)
    Neighbours(vectors).closest(vectors, 3)
    assert len(asked) == count
