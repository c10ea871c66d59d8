"""A hundred pictures there and back: through Hugging Face's datasets, as Parquet and Arrow files, and WebDataset's tars."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import image_copies
from image_copies import rows_to_keep
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.procedural import write_pictures
from image_copies.data.sources.discovery import discover

REASON = "the packages of the extra dev are not installed"
SMALLER, SAME = 2, 7  # pictures of which 98 and 99 are copies


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("interchange")
    paths = [folder / f"R{row:06d}.jpg" for row in range(100)]
    list(write_pictures(folder, "R", 98, seed=1, workers=1))
    with Image.open(paths[SMALLER]) as image:
        image.resize((image.width // 2, image.height // 2)).save(paths[98])
    shutil.copy(paths[SAME], paths[99])
    return paths


@pytest.fixture
def dataset(pictures: list[Path]) -> Any:
    datasets: Any = pytest.importorskip("datasets", reason=REASON)
    cells = [{"bytes": path.read_bytes(), "path": path.name} for path in pictures]
    return datasets.Dataset.from_dict({"label": range(100), "picture": cells}).cast_column("picture", datasets.Image())


def find_rows(source: Path) -> list[list[int]]:
    groups = image_copies.find_copies(source, verify=0)
    return sorted(sorted(int(path.stem.removeprefix("R")) for path in group) for group in groups)


@pytest.fixture(scope="module")
def groups(pictures: list[Path]) -> list[list[int]]:
    """The copies that are found in a folder of the same pictures; some made-up ones are alike."""
    found = find_rows(pictures[0].parent)
    assert all(any({row, copy} <= set(group) for group in found) for row, copy in ((SMALLER, 98), (SAME, 99)))
    return found


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_of_a_dataset_are_sources(
    pictures: list[Path], groups: list[list[int]], dataset: Any, tmp_path: Path, form: str
) -> None:
    if form == "parquet":
        dataset.to_parquet(source := tmp_path / "train.parquet", batch_size=30)
    else:
        dataset.save_to_disk(tmp_path / "saved")
        source = tmp_path / "saved"
    found = discover([source]).paths
    assert [int(path.stem) for path in found] == list(range(100)) and {path.suffix for path in found} == {".jpg"}
    assert all(np.array_equal(decode_rgb(one), decode_rgb(other)) for one, other in zip(found, pictures, strict=True))
    assert find_rows(source) == groups


def test_rows_of_a_dataset_are_kept(pictures: list[Path], dataset: Any) -> None:
    keep = rows_to_keep(dataset, verify=0)
    assert keep == [*range(98)] == dataset.select(keep)["label"]
    chosen = dataset.select([98, 99, 0, SAME, SMALLER]).remove_columns("label")
    assert rows_to_keep(chosen, "picture") == [1, 2, 4]
    with pytest.raises(UserError, match=r"the dataset has the columns .*label.*; expected image with images"):
        rows_to_keep(dataset, "image")


def test_rows_that_name_files_are_kept(pictures: list[Path]) -> None:
    datasets: Any = pytest.importorskip("datasets", reason=REASON)
    named = datasets.Dataset.from_dict({"image": [str(pictures[row]) for row in (SMALLER, 0, 98)]})
    assert rows_to_keep(named.cast_column("image", datasets.Image())) == [0, 1]


@pytest.fixture
def shards(pictures: list[Path], tmp_path: Path) -> Path:
    webdataset: Any = pytest.importorskip("webdataset", reason=REASON)
    with webdataset.ShardWriter(f"{tmp_path}/shard-%06d.tar", maxcount=30, verbose=0) as writer:
        for row, path in enumerate(pictures):
            writer.write({"__key__": f"{row:06d}", "jpg": path.read_bytes(), "json": {"row": row}})
    return tmp_path


def test_tars_of_webdataset_are_sources(pictures: list[Path], groups: list[list[int]], shards: Path) -> None:
    webdataset: Any = pytest.importorskip("webdataset", reason=REASON)
    found = discover([shards])
    assert len(found.paths) == 100 and len(found.skipped["not a picture"]) == 100
    assert find_rows(shards) == groups
    copies = {f"{row:06d}" for group in groups for row in group[1:]}

    def kept() -> Iterator[dict[str, Any]]:
        tars = sorted(map(str, shards.glob("*.tar")))
        yield from webdataset.WebDataset(tars, shardshuffle=False).select(lambda sample: sample["__key__"] not in copies)

    back = {sample["__key__"]: sample["jpg"] for sample in kept()}
    assert len(back) == 100 - len(copies) and all(pictures[int(key)].read_bytes() == content for key, content in back.items())
