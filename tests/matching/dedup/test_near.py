"""Eight bits find what is near as float32 does, whatever the vectors' lengths."""

import sys
from typing import Any

import numpy as np
import pytest
import torch

from image_copies.matching.dedup import near
from image_copies.matching.dedup.near import Held, find_near

LIMIT = 0.8


@pytest.mark.parametrize("by_codes", [True, False])
@pytest.mark.parametrize("outlier", [0, 3])
def test_nothing_is_lost(by_codes: bool, outlier: float, monkeypatch: pytest.MonkeyPatch) -> None:
    compared_whole, compare_all = list[int](), near._compare_all

    def remember(queries: Any, references: Any, limit: float) -> Any:
        compared_whole.append(len(queries))
        return compare_all(queries, references, limit)

    monkeypatch.setattr(near, "_multiplies_exactly", lambda: by_codes)
    monkeypatch.setattr(near, "_compare_all", remember)
    monkeypatch.setattr(near, "PRODUCTS_AT_ONCE", 20_000)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((900, 256))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    away = rng.standard_normal((900, 256)) / 16
    queries = (vectors + np.linspace(0.5, 1.1, 900)[:, None] * away) * rng.uniform(0.9, 1.1, (900, 1))
    vectors[0, 0] += outlier
    sides = [own.astype(np.float16) for own in (queries, vectors)]
    asked, compared = rng.permutation(900)[:300], rng.permutation(900)[:700]
    rows, columns, far = find_near(Held(sides[0]), Held(sides[1]), asked, compared, LIMIT)
    one, other = (own.astype(np.float64) for own in (sides[0][asked], sides[1][compared]))
    true = ((one[:, None] - other[None]) ** 2).sum(axis=2)
    assert np.array_equal(np.stack([rows, columns]), np.nonzero(true <= LIMIT)) and len(rows) > 50
    assert np.allclose(far, true[rows, columns], atol=1e-5)
    assert bool(compared_whole) != by_codes


def test_a_processor_that_adds_in_16_bits_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX2 without VNNI saturates."""
    multiply = torch._int_mm
    monkeypatch.setattr(torch, "_int_mm", lambda one, other: multiply(one, other).clamp(-(2**21), 2**21))
    assert not near._multiplies_exactly.__wrapped__()


def test_without_torch_all_is_compared_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not near._multiplies_exactly.__wrapped__()
