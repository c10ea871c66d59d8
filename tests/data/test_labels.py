from pathlib import Path

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.labels import read_class_folders, read_labels

IMAGES = ImageSet(["a", "b", "c"], [Path("a.jpg"), Path("b.jpg"), Path("c.jpg")])


def test_labels_follow_the_images_order_and_stay_strings(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("image_id,label\nc,NA\na,007\nb, NA\n")
    labelled = read_labels(path, IMAGES)
    assert labelled.names == ["007", "NA"]
    assert labelled.labels.tolist() == [0, 1, 1] and labelled.labels.dtype == np.int64
    assert labelled.images.ids == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,label\na,x\n", "has the columns id,label; expected image_id,label"),
        ("image_id,label\na,x\nb,x\nb,y\nc,x\n", "'b' more than once"),
        ("image_id,label\na,x\nb,x\nc,x\nzebra,x\n", "1 ids belong to no image; the first is 'zebra'"),
        ("image_id,label\na,x\n", "2 of 3 images have no row; the first is 'b'"),
        ("image_id,label\na,x\nb,\nc,x\n", "line 3: the label is empty"),
        ("image_id,label\na,x\nb, \nc,x\n", "line 3: the label is empty"),
    ],
)
def test_wrong_label_files_get_one_message(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_labels(path, IMAGES)


def test_class_folders(tmp_path: Path) -> None:
    for name in ("dog/1.jpg", "cat/deep/1.jpg", "cat/2.JPEG", "cat/readme.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    labelled = read_class_folders(tmp_path)
    assert labelled.images.ids == ["cat/2", "cat/deep/1", "dog/1"]
    assert labelled.names == ["cat", "dog"] and labelled.labels.tolist() == [0, 0, 1]
    (tmp_path / "loose.jpg").write_bytes(b"x")
    with pytest.raises(UserError, match="1 images are not in a class folder; the first is 'loose'"):
        read_class_folders(tmp_path)
