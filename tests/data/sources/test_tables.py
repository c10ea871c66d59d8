"""Pictures in rows of Parquet and Arrow files: which column, which names, and what is refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.sources import tables
from image_copies.data.sources.archives import list_archive, read_bytes, read_member
from image_copies.data.sources.discovery import discover
from tests.pictures import encode

pa: Any = pytest.importorskip("pyarrow", reason="the extra interchange is not installed")
pq: Any = pytest.importorskip("pyarrow.parquet")


def encoded(row: int) -> bytes:
    return encode(Image.fromarray(np.full((32, 40, 3), row, np.uint8)))


def write(path: Path, group: int = 4, **columns: Any) -> Path:
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
        return path
    kind = pa.ipc.new_file if "file" in path.stem else pa.ipc.new_stream
    with path.open("wb") as file, kind(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=group)
    return path


@pytest.mark.parametrize("name", ["a.parquet", "stream.arrow", "file.arrow"])
def test_rows_are_read_in_any_order_and_named_by_their_number(tmp_path: Path, name: str) -> None:
    pictures: list[Any] = [{"bytes": encoded(row), "path": None if row else "0 ü.PNG"} for row in range(11)]
    pictures[5] = None
    path = write(tmp_path / name, label=list(range(11)), image=pictures)
    names = list_archive(path).members
    assert names == ["00.png", *(f"{row:02d}" for row in range(1, 11))]
    assert all(read_bytes(path / names[row]) == encoded(row) for row in (10, 0, 4, 9, 3))
    with pytest.raises(UserError, match=f"{name}: its member '05' cannot be read"):
        read_member(path, "05")
    found = discover([path])
    assert len(found.paths) == 10 and {reason: len(paths) for reason, paths in found.skipped.items()} == {"cannot be opened": 1}
    plain = write(tmp_path / f"file plain{path.suffix}", jpg=[encoded(1), encoded(2)])
    assert read_member(plain, "1", 4) == encoded(2)[:4]


def test_a_table_without_pictures_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "v.parquet", id=["a"], vector=[[1.0]])
    with pytest.raises(UserError, match=r"v\.parquet has the columns id \(string\), vector \(list.*expected one of pictures"):
        discover([path])
    with pytest.raises(UserError, match="found: 1 an archive that cannot be read"):
        discover([tmp_path])
    write(path, image=[encoded(1)])
    monkeypatch.setattr(tables, "MAX_GROUP_BYTES", 10)
    with pytest.raises(UserError, match="row_group_size=100"):
        discover([path])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"v\.parquet needs pyarrow\. .*interchange"):
        discover([path])


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_damaged_table_is_an_error(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, image=[encoded(row) for row in range(9)])
    whole = path.read_bytes()
    for damaged in (whole[:-50], whole[: len(whole) // 2], b"PAR1", whole.replace(b"image", b"imago", 1)[:200]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=f"{name} cannot be read as an archive"):
            discover([path])
