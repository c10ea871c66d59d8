"""Vectors in Parquet: written and read by pyarrow itself, in the place of a vectors file everywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import image_copies
from image_copies.data.errors import UserError
from image_copies.submissions.vectors.files import iterate_vectors, open_vectors, read_vectors, write_vectors

pa: Any = pytest.importorskip("pyarrow", reason="the extra interchange is not installed")
pq: Any = pytest.importorskip("pyarrow.parquet")

VECTORS = np.random.default_rng(0).standard_normal((100, 5)).astype(np.float32)
IDS = [f"ü{row}" for row in range(100)]


def write_foreign(path: Path, groups: int = 7, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=groups)
    return path


def test_a_hundred_pictures_go_there_and_back(tmp_path: Path) -> None:
    blocks = [VECTORS[:40], np.where(np.arange(60)[:, None] == 59, 0, VECTORS[40:])]
    write_vectors(tmp_path / "v.parquet", IDS, blocks, np.arange(100) == 99)
    table = pq.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["id", "vector"] and table["vector"][99].as_py() is None
    pq.write_table(table.select(["vector", "id"]), tmp_path / "again.parquet", row_group_size=30)
    for name in ("v.parquet", "again.parquet"):
        read = read_vectors(tmp_path / name)
        assert read.ids == IDS and np.array_equal(read.vectors[:99], VECTORS[:99]) and not read.vectors[99].any()
        assert np.flatnonzero(read.unreadable).tolist() == [99]


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed"])
@pytest.mark.parametrize("precision", ["float16", "float32", "float64"])
def test_foreign_lists_are_read_in_the_blocks_that_are_asked_for(tmp_path: Path, kind: str, precision: str) -> None:
    value = getattr(pa, precision)()
    made = {"list": pa.list_(value), "large_list": pa.large_list(value), "fixed": pa.list_(value, 5)}[kind]
    given: list[Any] = list(VECTORS.astype(precision))
    given[0], given[50] = None, None
    path = write_foreign(tmp_path / "v.PARQUET", id=list(range(100)), vector=pa.array(given, made), more=[{"a": 1}] * 100)
    assert [len(block) for block in iterate_vectors(path, 30, first=5, last=91)] == [30, 30, 26]
    expected = np.where(np.isin(np.arange(100), [0, 50])[:, None], 0, VECTORS.astype(precision).astype(np.float32))
    assert np.array_equal(np.concatenate(list(iterate_vectors(path, 30, first=5, last=91))), expected[5:91])
    read = read_vectors(path)
    assert np.array_equal(read.vectors, expected) and read.ids[:2] == ["0", "1"]
    assert np.flatnonzero(read.unreadable).tolist() == [0, 50] and len(open_vectors(path).readable()) == 98


def test_parquet_is_scored(tmp_path: Path) -> None:
    truth = dict(zip(IDS, [*IDS[:50], *[None] * 50], strict=True))
    write_vectors(tmp_path / "q.parquet", IDS, [VECTORS], half=True)
    write_vectors(tmp_path / "r.parquet", IDS, [VECTORS])
    scores = image_copies.score(tmp_path / "q.parquet", tmp_path / "r.parquet", truth)
    assert scores == image_copies.score(dict(zip(IDS, VECTORS.astype(np.float16), strict=True)), tmp_path / "r.parquet", truth)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"name": ["a"], "embedding": [[1.0]]}, r"has the columns name \(string\), embedding \(list.*; expected id and vector"),
        ({"id": ["a"], "vector": ["1"]}, r"vector \(string\); expected id and vector"),
        ({"id": ["a", "b"], "vector": [[1.0], [1.0, 2.0]]}, "of 1 and of 2 dimensions"),
        ({"id": ["a", None], "vector": [[1.0], [2.0]]}, "row 1 has no id"),
        ({"id": ["a", "b"], "vector": [[1.0], [float("nan")]]}, r"NaN or infinity, .* row 1 \('b'\)"),
        ({"id": ["a"], "vector": pa.array([None], pa.list_(pa.float32()))}, "it holds no vector"),
    ],
)
def test_wrong_columns_are_named(tmp_path: Path, columns: dict[str, Any], error: str) -> None:
    path = write_foreign(tmp_path / "v.parquet", **columns)
    with pytest.raises(UserError, match=rf"^{path}.*{error}"):
        read_vectors(path)


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_vectors(tmp_path / "v.parquet")
    (tmp_path / "v.parquet").write_bytes(b"PAR1" + b"x" * 100)
    with pytest.raises(UserError, match="not a complete Parquet file"):
        read_vectors(tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="2 vectors for 3 ids"):
        write_vectors(tmp_path / "w.parquet", IDS[:3], [VECTORS[:2]])
    assert [path.name for path in tmp_path.iterdir()] == ["v.parquet"]
