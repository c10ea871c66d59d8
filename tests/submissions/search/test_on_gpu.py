"""Faiss's GPU for approximate indexes, played by its CPU."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.submissions.search.approximate import StoredIndex, build_index, measure_recall, search_stored, train_index
from image_copies.submissions.vectors.concatenated import open_concatenated
from image_copies.submissions.vectors.files import write_vectors
from image_copies.submissions.vectors.stored import open_stored_vectors


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """What is copied to which GPU, of two; the process has the second."""
    done: list[tuple[int, str]] = []

    def copy(_: object, device: int, index: Any) -> Any:
        done.append((device, type(faiss.downcast_index(index)).__name__))
        return index

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2)
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", copy, raising=False)
    monkeypatch.setattr(faiss, "knn_gpu", lambda _, *searched, device, **how: faiss.knn(*searched, **how), raising=False)
    monkeypatch.setenv("LOCAL_RANK", "1")
    return done


def draw(path: Path, count: int) -> Path:
    values = np.random.default_rng(count).standard_normal((count, 8)).astype(np.float32)
    write_vectors(path, [f"{path.stem}{row}" for row in range(count)], [values])
    return path


@pytest.mark.parametrize(("factory", "kind"), [("IVF4,SQ8", "IndexIVFScalarQuantizer"), ("PCA4,IVF4,PQ2x4", "IndexPreTransform")])
def test_an_index_is_clustered_and_searched_on_the_gpu(tmp_path: Path, copied: list[Any], factory: str, kind: str) -> None:
    training, queries = (open_concatenated([draw(tmp_path / f"{count}.h5", count)]) for count in (400, 20))
    vectors, found = open_stored_vectors([draw(tmp_path / "300.h5", 300)]), []
    for on_gpu in (False, True):
        folder, codes = tmp_path / f"index-{on_gpu}", tmp_path / f"codes-{on_gpu}"
        folder.mkdir()
        codes.mkdir()
        build_index(factory, training, vectors, folder, codes, on_gpu=on_gpu)
        index = StoredIndex(folder, vectors, probes=2, on_gpu=on_gpu)
        found.append(search_stored(index, queries.sample(20, 0), 3))
        assert measure_recall([index], queries)[0].queries == 20
    assert copied == [(1, "IndexFlatL2"), (1, kind), (1, kind)]
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


def test_without_inverted_lists_nothing_is_clustered(copied: list[Any]) -> None:
    sample = np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32)
    assert train_index("SQ8", sample, "sample", on_gpu=True).is_trained and copied == []
    lists: Any = faiss.try_extract_index_ivf(train_index("IVF4,Flat", sample, "sample", on_gpu=True))
    assert lists.clustering_index is None and len(copied) == 1


def test_what_the_gpu_cannot_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[Any]) -> None:
    training, vectors = open_concatenated([draw(tmp_path / "400.h5", 400)]), open_stored_vectors([draw(tmp_path / "300.h5", 300)])
    for name in ("index", "codes"):
        (tmp_path / name).mkdir()
    build_index("IVF4,SQ8", training, vectors, tmp_path / "index", tmp_path / "codes")

    def refuse(*_: object) -> None:
        raise RuntimeError("Error in GpuIndexIVF: This index type is not implemented on GPU.\nmore")

    monkeypatch.setattr(faiss, "index_cpu_to_gpu", refuse)
    index = StoredIndex(tmp_path / "index", vectors, on_gpu=True)
    with pytest.raises(UserError, match=r"cannot search .*index on the GPU: .*not implemented on GPU\. Leave out --on-gpu"):
        search_stored(index, vectors.sample(3, 0), 1)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    for work in (
        lambda: search_stored(index, vectors.sample(3, 0), 1),
        lambda: train_index("IVF4,Flat", np.eye(8, dtype="f4"), "s", True),
    ):
        with pytest.raises(UserError, match=r"Faiss finds no GPU here.* Leave out --on-gpu"):
            work()
