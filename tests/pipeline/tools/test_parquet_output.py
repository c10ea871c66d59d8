"""`image-copies embed --output vectors.parquet`, with torch and without: ids, paths, digests and vectors."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.steps.embed import embed_folder
from image_copies.pipeline.tools.run_extractor import embed_by_extractor
from image_copies.submissions.vectors.files import read_vectors
from tests.pictures import write_images

pq: Any = pytest.importorskip("pyarrow.parquet", reason="the extra interchange is not installed")


def embed_without_torch(checkpoint: Path, folder: Path, output: Path) -> None:
    embed_by_extractor(checkpoint_extractor(checkpoint), folder, output)


@pytest.mark.parametrize("embed", [embed_folder, embed_without_torch])
def test_a_folder_becomes_parquet(tmp_path: Path, embed: Callable[..., None]) -> None:
    folder, output = tmp_path / "pictures", tmp_path / "vectors.parquet"
    write_images(folder, 3, "R")
    (folder / "broken.jpg").write_bytes(b"no picture")
    embed(SHIPPED, folder, output)
    table = pq.read_table(output).to_pydict()
    paths = [folder / name for name in ("R000000.jpg", "R000001.jpg", "R000002.jpg", "broken.jpg")]
    assert table["id"] == [path.stem for path in paths]
    assert [vector is None for vector in table["vector"]] == [False, False, False, True]
    read, direct = read_vectors(output), tmp_path / "vectors.h5"
    embed(SHIPPED, folder, direct)
    assert read.unreadable.tolist() == [False, False, False, True] and np.array_equal(read.vectors, read_vectors(direct).vectors)


@pytest.mark.parametrize("embed", [embed_folder, embed_without_torch])
def test_nothing_is_embedded_for_a_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embed: Callable[..., None]
) -> None:
    write_images(tmp_path / "pictures", 1)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"Parquet needs pyarrow\. .*interchange"):
        embed(SHIPPED, tmp_path / "pictures", tmp_path / "vectors.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]
