from pathlib import Path

import numpy as np
import pytest

from data.errors import UserError
from submissions.approximate import build_index, load_index, measure_recall, save_index
from submissions.projection import unit_length


def vectors(count: int, seed: int) -> np.ndarray:
    return unit_length(np.random.default_rng(seed).standard_normal((count, 16)).astype(np.float32))


def test_recall_is_measured_and_a_flat_index_is_exact(tmp_path: Path) -> None:
    references, training, queries = vectors(2000, 0), vectors(1500, 1), vectors(50, 2)
    flat = measure_recall(build_index("Flat", training, references), queries, references)
    assert (flat.at_1, flat.at_10, flat.queries) == (1, 1, 50)
    narrow = build_index("IVF32,SQ8", training, references)
    some = measure_recall(narrow, queries, references)
    assert 0.05 < some.at_1 <= some.at_10 < 1  # one list of 32 is looked into
    save_index(tmp_path / "refs.index", narrow)
    assert measure_recall(load_index(tmp_path / "refs.index"), queries, references) == some


def test_wrong_strings_and_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="knows no index 'IVFFF'"):
        build_index("IVFFF", vectors(10, 0), vectors(10, 1))
    with pytest.raises(UserError, match="10 training vectors cannot train"):
        build_index("IVF32,Flat", vectors(10, 0), vectors(100, 1))
    with pytest.raises(UserError, match=r"'IDMap,Flat' cannot hold references by their row: .* Leave IDMap out"):
        build_index("IDMap,Flat", vectors(10, 0), vectors(10, 1))
    (tmp_path / "x.index").write_bytes(b"x")
    with pytest.raises(UserError, match="not a Faiss index"):
        load_index(tmp_path / "x.index")
