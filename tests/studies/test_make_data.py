"""Data sets in the ISC2021 layout made of archives with classes."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.labels import read_labels
from image_copies.data.layout import GROUND_TRUTH, TRAINING_LABELS, open_isc_folder
from image_copies.pipeline.make_data import make_data
from tests.pictures import write_images


def make_cub(root: Path) -> None:
    """Three images of each of four classes, of which 1 and 100 train, 101 and 200 test."""
    names = []
    for number, path in enumerate(write_images(root / "drawn", 12).paths):
        names.append(f"{[1, 100, 101, 200][number % 4]:03d}.Bird/{path.name}")
        target = root / "CUB_200_2011" / "images" / names[-1]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
    (root / "drawn").rmdir()
    rows = list(enumerate(names, start=1))
    (root / "CUB_200_2011" / "images.txt").write_text("".join(f"{number} {name}\n" for number, name in rows))
    labels = "".join(f"{number} {int(name[:3])}\n" for number, name in rows)
    (root / "CUB_200_2011" / "image_class_labels.txt").write_text(labels)


def test_cub_becomes_a_data_set_with_the_papers_training_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_cub(tmp_path / "archive")
    made = tmp_path / "made"
    make_data(tmp_path / "archive", made, 0, "cub")
    folder = open_isc_folder(made)
    labelled = read_labels(made / TRAINING_LABELS, folder.training)
    assert labelled.names == ["001.Bird", "100.Bird"] and len(labelled) == 6
    files = pd.read_csv(made / "sources.csv", index_col="id")["file"]
    for image_id, label in zip(labelled.images.ids, labelled.labels, strict=True):
        assert Path(files[image_id]).parent.name == labelled.names[label]
    assert {Path(files[image_id]).parent.name for image_id in folder.reference.ids} <= {"101.Bird", "200.Bird"}
    truth = read_ground_truth(made / GROUND_TRUTH)
    assert len(folder.reference) == 5 and {reference for _, reference in truth.pairs} <= set(folder.reference.ids)
    make_data(tmp_path / "archive", made, 0, "cub")
    assert "up to date" in capsys.readouterr().out
    make_data(tmp_path / "archive", made, 1, "cub")
    assert "made" in capsys.readouterr().out and len(open_isc_folder(made).reference) == 5


@pytest.mark.parametrize("content", ["{}", '{"name": "Flowers", "source": "sample", "seed": 0}', "not JSON"])
def test_only_what_the_command_made_is_replaced(tmp_path: Path, content: str) -> None:
    """Any folder with a file of this name was replaced."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "dataset.json").write_text(content)
    (mine / "picture.jpg").write_bytes(b"mine")
    make_cub(tmp_path / "archive")
    with pytest.raises(UserError, match=r"no dataset\.json in it says that this command made it: it is left alone"):
        make_data(tmp_path / "archive", mine, 0, "cub")
    assert (mine / "picture.jpg").read_bytes() == b"mine"


def test_another_folder_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    write_images(tmp_path / "photos", 3)
    with pytest.raises(UserError, match=r"images\.txt"):
        make_data(tmp_path / "photos", tmp_path / "made", 0, "cub")
    assert not (tmp_path / "made").exists()
