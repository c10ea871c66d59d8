from pathlib import Path

import faiss
import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.steps.approximate_recall import print_index_recall
from image_copies.submissions.search.shard_codes import LISTS_FILE
from image_copies.submissions.vectors.files import write_vectors

RECIPE = Path(__file__).parents[3] / "recipes" / "sample.yaml"


def stored(path: Path, count: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    write_vectors(path, [f"{path.stem}{row}" for row in range(count)], [values])


def test_an_index_is_kept_until_references_or_factory_change(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path, read_recipe(RECIPE), tmp_path)
    with pytest.raises(UserError, match="step 03_ensemble has not been done"):
        print_index_recall(run, "IVF4,Flat", None, False)
    for name, count in (("ensemble/training", 400), ("ensemble/reference", 300), ("normalized/query", 20)):
        stored(tmp_path / f"{name}.h5", count, count)

    def reported(factory: str, probes: int | None = None) -> str:
        print_index_recall(run, factory, probes, False)
        return capfd.readouterr().out

    first = reported("IVF4,Flat")
    assert "index: starting" in first and "IVF4,Flat, 2 of 4 lists searched: recall at 1" in first
    again = reported("IVF4,Flat", 4)
    assert again.startswith("06_score index: up to date")
    assert "4 of 4 lists searched: recall at 1 1.000, at 10 1.000 against exact search of 20 queries among 300" in again
    assert "\nwith exact distances of 50 candidates per neighbour: recall at 1 1.000, at 10 1.000 against" in again
    assert "parameter factory changed" in reported("IVF4,SQ8")
    stored(tmp_path / "ensemble/reference.h5", 310, 1)
    changed = reported("IVF4,SQ8")
    assert "input reference changed" in changed and "among 310 references" in changed
    lists = run.paths.index / LISTS_FILE
    whole = lists.read_bytes()
    lists.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    assert "references.ivfdata is damaged: its checksum is another. The index is made again.\n" in reported("IVF4,SQ8")
    assert lists.read_bytes() == whole and reported("IVF4,SQ8").startswith("06_score index: up to date")


def test_recall_needs_a_readable_query(tmp_path: Path) -> None:
    run = Run(tmp_path, read_recipe(RECIPE), tmp_path)
    for name, count in (("ensemble/training", 40), ("ensemble/reference", 30)):
        stored(tmp_path / f"{name}.h5", count, count)
    queries = tmp_path / "normalized/query.h5"
    write_vectors(queries, ["Q1", "Q2"], [np.zeros((2, 8), np.float32)], np.ones(2, bool))
    with pytest.raises(UserError, match="holds no vector of a readable image to search with"):
        print_index_recall(run, "Flat", None, False)


def test_a_stopped_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path, read_recipe(RECIPE), tmp_path)
    for name, count in (("ensemble/training", 400), ("ensemble/reference", 300), ("normalized/query", 20)):
        stored(tmp_path / f"{name}.h5", count, count)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
        stopped.setattr("image_copies.submissions.search.approximate.merge_codes", stop)
        print_index_recall(run, "IVF4,SQ8", None, False)
    (codes,) = tmp_path.glob(".index-shards-*")
    assert len(list(codes.glob("codes-*"))) == 1 and not run.paths.index.exists()
    (tmp_path / ".index-shards-0").mkdir()  # of another index
    monkeypatch.setattr("image_copies.submissions.search.shard_codes._encode_shard", stop)  # nothing is encoded again
    print_index_recall(run, "IVF4,SQ8", 4, False)
    assert "recall at 1 1.000" in capfd.readouterr().out
    assert list(tmp_path.glob(".index-shards-*")) == []


@pytest.mark.parametrize("kind", ["codes", "quantizer"])
def test_a_folder_in_the_place_of_codes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    run = Run(tmp_path, read_recipe(RECIPE), tmp_path)
    for name, count in (("ensemble/training", 400), ("ensemble/reference", 300), ("normalized/query", 20)):
        stored(tmp_path / f"{name}.h5", count, count)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
        stopped.setattr("image_copies.submissions.search.approximate.merge_codes", stop)
        print_index_recall(run, "IVF4,SQ8", None, False)
    (written,) = tmp_path.glob(f".index-shards-*/{kind}-*.faiss")
    written.unlink()
    written.mkdir()
    with pytest.raises(UserError, match=rf"{kind}-.*\.faiss is a folder, but the index keeps a file there\. Remove .*shards-"):
        print_index_recall(run, "IVF4,SQ8", None, False)
    written.rmdir()
    print_index_recall(run, "IVF4,SQ8", None, False)


def test_an_index_of_the_gpu_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The GPU is played by the CPU."""
    run = Run(tmp_path, read_recipe(RECIPE), tmp_path)
    for name, count in (("ensemble/training", 400), ("ensemble/reference", 300), ("normalized/query", 20)):
        stored(tmp_path / f"{name}.h5", count, count)
    print_index_recall(run, "IVF4,SQ8", None, False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    with pytest.raises(UserError, match="Faiss finds no GPU here"):
        print_index_recall(run, "IVF4,SQ8", None, False, on_gpu=True)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", lambda _, __, index: index, raising=False)
    monkeypatch.setattr(faiss, "knn_gpu", lambda _, *searched, device, **how: faiss.knn(*searched, **how), raising=False)
    capfd.readouterr()
    print_index_recall(run, "IVF4,SQ8", 4, False, on_gpu=True)
    said = capfd.readouterr().out
    assert (
        "parameter clustered_on_gpu changed" in said and "IVF4,SQ8, 4 of 4 lists searched, on the GPU: recall at 1 1.000" in said
    )
    print_index_recall(run, "IVF4,SQ8", 4, False, on_gpu=True)
    assert "up to date" in capfd.readouterr().out
