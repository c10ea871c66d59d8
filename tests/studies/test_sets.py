"""Each reader on a folder laid out like its archive, complete and damaged."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from image_copies.data.errors import UserError
from image_copies.studies.multigrain.sets import read_copydays, read_holidays, read_ukb
from image_copies.studies.svmax.sets import read_cars, read_cub, read_online_products
from tests.folders import touch

Read = Callable[[Path], object]
Make = Callable[[Path], None]


def make_holidays(root: Path) -> None:
    touch(root, *(f"jpg/{number}.jpg" for number in (100000, 100001, 100002, 100100, 100101)))


def make_ukb(root: Path) -> None:
    touch(root, *(f"full/ukbench{number:05d}.jpg" for number in range(8)))


def make_copydays(root: Path) -> None:
    touch(root, "original/200000.jpg", "original/200100.jpg", "strong/200001.jpg", "strong/200002.jpg", "strong/200101.jpg")
    touch(root, "jpeg/15/200000.jpg", "crops/10/200100.jpg")  # of the other archives, which are not read


def make_cub(root: Path) -> None:
    names = ["001.Albatross/a.jpg", "100.Pelican/b.jpg", "101.Wren/c.jpg", "200.Finch/d.jpg", "001.Albatross/e.jpg"]
    touch(root / "CUB_200_2011", *(f"images/{name}" for name in names))
    lines = [f"{number} {name}\n" for number, name in enumerate(names, start=1)]
    (root / "CUB_200_2011" / "images.txt").write_text("".join(lines))
    lines = [f"{number} {int(name[:3])}\n" for number, name in enumerate(names, start=1)]
    (root / "CUB_200_2011" / "image_class_labels.txt").write_text("".join(lines))


def write_cars_table(root: Path, classes: list[int]) -> None:
    kind = [("relative_im_path", object), ("bbox_x1", object), ("class", object), ("test", object)]
    rows = np.array([(f"car_ims/{i:06d}.jpg", 1, label, i % 2) for i, label in enumerate(classes, start=1)], dtype=kind)
    titles = np.array([[f"car {label}" for label in range(1, 197)]], dtype=object)
    savemat(root / "cars_annos.mat", {"annotations": rows[None], "class_names": titles})


def make_cars(root: Path) -> None:
    touch(root, *(f"car_ims/{number:06d}.jpg" for number in range(1, 6)))
    write_cars_table(root, [98, 1, 99, 196, 1])


HEADER = "image_id class_id super_class_id path\n"


def make_online_products(root: Path) -> None:
    folder = root / "Stanford_Online_Products"
    touch(folder, "bicycle_final/111_0.JPG", "bicycle_final/111_1.JPG", "sofa_final/222_0.JPG")
    (folder / "Ebay_train.txt").write_text(f"{HEADER}1 1 1 bicycle_final/111_0.JPG\n2 1 1 bicycle_final/111_1.JPG\n")
    (folder / "Ebay_test.txt").write_text(f"{HEADER}3 11319 2 sofa_final/222_0.JPG\n")


def test_holidays(tmp_path: Path) -> None:
    make_holidays(tmp_path)
    found = read_holidays(tmp_path)
    assert [found.images.ids[row] for row in found.queries] == ["100000", "100100"]
    assert found.relevant == [[1, 2], [4]] and found.ignored == [[0], [3]]


def test_ukb_with_and_without_its_folder(tmp_path: Path) -> None:
    make_ukb(tmp_path)
    for root in (tmp_path, tmp_path / "full"):
        found = read_ukb(root)
        assert found.labels.tolist() == [0] * 4 + [1] * 4 and found.images.ids[5] == "ukbench00005"


def test_copydays(tmp_path: Path) -> None:
    make_copydays(tmp_path / "set")
    touch(tmp_path / "more", "a.jpg", "deep/b.jpg")
    found = read_copydays(tmp_path / "set", distractors=tmp_path / "more")
    assert [found.images.ids[row] for row in found.queries] == ["strong/200001", "strong/200002", "strong/200101"]
    answers = [[found.images.ids[row] for row in rows] for rows in found.relevant]
    assert answers == [["original/200000"]] * 2 + [["original/200100"]]
    assert found.images.ids[-2:] == ["distractor/a", "distractor/deep/b"]
    assert all(rows == found.queries for rows in found.ignored)


def test_cub(tmp_path: Path) -> None:
    make_cub(tmp_path)
    for root in (tmp_path, tmp_path / "CUB_200_2011"):
        train, test = read_cub(root)
        assert train.names == ["001.Albatross", "100.Pelican"] and train.labels.tolist() == [0, 1, 0]
        assert test.images.ids == ["101.Wren/c.jpg", "200.Finch/d.jpg"] and test.labels.tolist() == [0, 1]


def test_cars(tmp_path: Path) -> None:
    make_cars(tmp_path)
    train, test = read_cars(tmp_path)
    assert train.names == ["car 1", "car 98"] and train.labels.tolist() == [1, 0, 0]
    assert test.names == ["car 99", "car 196"] and test.images.ids == ["car_ims/000003.jpg", "car_ims/000004.jpg"]


def test_online_products(tmp_path: Path) -> None:
    make_online_products(tmp_path)
    for root in (tmp_path, tmp_path / "Stanford_Online_Products"):
        train, test = read_online_products(root)
        assert train.labels.tolist() == [0, 0] and test.names == ["11319"]
        assert test.images.paths[0].is_file()


READERS: list[tuple[Read, Make, str]] = [
    (read_holidays, make_holidays, r"lacks jpg/ .*jpg/100000\.jpg"),
    (read_ukb, make_ukb, r"holds no image"),
    (read_copydays, make_copydays, r"lacks original/, strong/ .*root of the unpacked archive"),
    (read_cub, make_cub, r"lacks images\.txt, image_class_labels\.txt, images/ .*CUB_200_2011\.tgz"),
    (read_cars, make_cars, r"lacks cars_annos\.mat, car_ims/ .*side by side"),
    (read_online_products, make_online_products, r"lacks Ebay_train\.txt, Ebay_test\.txt .*Stanford_Online_Products\.zip"),
]


@pytest.mark.parametrize(("read", "make", "message"), READERS)
def test_missing_and_wrong_folders_are_reported(tmp_path: Path, read: Read, make: Make, message: str) -> None:
    with pytest.raises(UserError, match=r"is not a folder\. Name the root of the unpacked archive"):
        read(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UserError, match=message):
        read(tmp_path)


CUB, PRODUCTS = "CUB_200_2011", "Stanford_Online_Products"
TEST, TRAIN = (f"{PRODUCTS}/Ebay_{part}.txt" for part in ("test", "train"))


@pytest.mark.parametrize(
    ("read", "make", "file", "content", "message"),  # None: the file is gone
    [
        (read_holidays, make_holidays, "jpg/100100.jpg", None, "group 1001 has 1 images.*Are both archives unpacked"),
        (read_holidays, make_holidays, "jpg/100101.jpg", None, "group 1001 has 1 images"),
        (read_holidays, make_holidays, "jpg/beach.jpg", "x", "1 images have other names, such as 'beach'"),
        (read_ukb, make_ukb, "full/ukbench00006.jpg", None, "1 objects do not have four images.*ukbench00004 to ukbench00007"),
        (read_ukb, make_ukb, "full/cat.jpg", "x", "1 images have other names, such as 'cat'"),
        (read_copydays, make_copydays, "original/200100.jpg", None, r"1 copies have no original; the first is .*200101\.jpg"),
        (read_copydays, make_copydays, "strong/cat.jpg", "x", "1 images have other names, such as 'cat'"),
        (read_cub, make_cub, f"{CUB}/images/200.Finch/d.jpg", None, r"1 of them do not exist; the first is .*Finch/d\.jpg"),
        (read_cub, make_cub, f"{CUB}/images.txt", None, r"lacks images\.txt"),
        (read_cub, make_cub, f"{CUB}/image_class_labels.txt", "1 1\n2 x\n", "name different images"),
        (read_cars, make_cars, "car_ims/000003.jpg", None, r"1 of them do not exist; the first is .*000003\.jpg"),
        (read_cars, make_cars, "cars_annos.mat", None, r"lacks cars_annos\.mat"),
        (read_cars, make_cars, "cars_annos.mat", "not a table", "is not Cars-196's table"),
        (read_online_products, make_online_products, f"{PRODUCTS}/sofa_final/222_0.JPG", None, "1 of them do not exist"),
        (
            read_online_products,
            make_online_products,
            f"{PRODUCTS}/Ebay_test.txt",
            f"{HEADER}3 1 a.jpg\n",
            "line 2 has 3 columns; .* 4",
        ),
        # otherwise the first image would be lost
        (
            read_online_products,
            make_online_products,
            f"{PRODUCTS}/Ebay_train.txt",
            "1 1 1 a\n",
            "does not begin with the line 'image",
        ),
    ],
)
def test_a_missing_file_and_one_in_another_format_are_named(
    tmp_path: Path, read: Read, make: Make, file: str, content: str | None, message: str
) -> None:
    make(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path)


def test_cars_whose_classes_leave_a_part_without_images_are_refused(tmp_path: Path) -> None:
    make_cars(tmp_path)
    write_cars_table(tmp_path, [1, 2, 3, 4, 5])
    with pytest.raises(UserError, match="leave none"):
        read_cars(tmp_path)


def test_a_folder_of_another_data_set_is_reported_with_the_expected_layout(tmp_path: Path) -> None:
    """The message is not about two files with one id, which the user could not fix."""
    for name in ("a", "b"):
        make_ukb(tmp_path / name)
    with pytest.raises(UserError, match=r"16 images have other names.*full/ukbench00000\.jpg"):
        read_ukb(tmp_path)
    for name in ("a", "b"):
        make_holidays(tmp_path / "jpg" / name)
    with pytest.raises(UserError, match=r"10 images have other names.*jpg/100000\.jpg"):
        read_holidays(tmp_path)
