"""Images of a folder: ids, labels, the layout of a data set, and the roles of its training images."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from image_copies.data.cache import cache_images
from image_copies.data.decode import list_unreadable
from image_copies.data.errors import UserError, line_of, text_of
from image_copies.data.images import ImageSet, find_images
from image_copies.data.labels import read_class_folders, read_labels
from image_copies.data.layout import open_isc_folder, split_training
from tests.folders import touch


def test_what_is_listed_is_what_a_recursive_search_finds(tmp_path: Path) -> None:
    """Hidden folders are searched, hidden files and links to folders are not; broken links are images that cannot be read."""
    touch(tmp_path / "there", "b/a.x.jpg", "b/..jpg", ".hidden/c.png", "b/a", "b.jpg/d.webp", "e.TIF", "a b/f.jpg", "g.jpg.txt")
    (tmp_path / "there" / "link.jpg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "there" / "again").symlink_to(tmp_path / "there" / "b")
    (tmp_path / "there" / "folder.png").symlink_to(tmp_path / "there" / "b")
    images = find_images(tmp_path / "there", naming="file")
    assert images.ids == [".hidden/c.png", "a b/f.jpg", "b.jpg/d.webp", "b/a.x.jpg", "e.TIF", "link.jpg"]
    assert images.paths == [tmp_path / "there" / name for name in images.ids]
    assert find_images(tmp_path / "there", naming="path").ids == [name.rpartition(".")[0] for name in images.ids]
    assert find_images(tmp_path / "there").ids == ["a.x", "c", "d", "e", "f", "link"]


def test_two_files_with_one_id_are_named(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "a.png")
    with pytest.raises(UserError, match=r"a\.jpg and .*a\.png share the id 'a'"):
        find_images(tmp_path)


def test_select_keeps_the_given_order_and_names_the_first_missing_id(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    images = find_images(tmp_path)
    assert [path.name for path in images.select(["c", "a"]).paths] == ["c.jpg", "a.jpg"]
    with pytest.raises(UserError, match="'z'"):
        images.select(["a", "z"])


def test_the_digest_stays_the_one_in_existing_caches_and_training_states(tmp_path: Path) -> None:
    """A literal value, since files written by earlier versions contain it."""
    for name, content in (("b.jpg", b"12"), ("a.jpg", b"1")):
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, ns=(5, 7))
    images = find_images(tmp_path)
    assert images.digest() == hashlib.sha256(b"a\x001\x007\nb\x002\x007\n").hexdigest()
    assert images.digest(prefix="48 jpeg") == hashlib.sha256(b"48 jpega\x001\x007\nb\x002\x007\n").hexdigest()
    assert images.digest(times=False) == hashlib.sha256(b"a\x001\nb\x002\n").hexdigest()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_broken_links_and_pipes_are_listed_as_unreadable_images(tmp_path: Path) -> None:
    """They used to be dropped silently."""
    (tmp_path / "a.jpg").symlink_to("gone.jpg")
    os.mkfifo(tmp_path / "b.avif")
    Image.new("RGB", (16, 16)).save(tmp_path / "c.png")
    (tmp_path / "folder.jpg").mkdir()
    images = find_images(tmp_path)
    assert images.ids == ["a", "b", "c"]
    before = images.digest()
    Image.new("RGB", (16, 16)).save(tmp_path / "gone.jpg")
    assert images.digest() != before
    (tmp_path / "gone.jpg").unlink()
    squares = cache_images(images, 16, tmp_path / "cache")
    assert squares.readable_rows() == [2]
    assert "cannot be read" in squares.problems["a"] and "not a regular file" in squares.problems["b"]


BYTES = os.fsdecode(b"a\xff\xc3\xa9")


def test_bytes_that_are_no_text_become_escapes() -> None:
    assert text_of(BYTES) == "a\\xffé"
    assert line_of(f"{BYTES}\t\n\r\x1b[2J\u202e é") == "a\\xffé\\t\\n\\r\\x1b[2J\\u202e é"


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname == "Darwin", reason="names are text there")
def test_ids_are_text_whatever_files_are_called(tmp_path: Path) -> None:
    """They are written into HDF5 and CSV files, which take UTF-8 alone: a name in Latin-1 stopped step 02."""
    Image.new("RGB", (9, 9)).save(tmp_path / f"{BYTES}.png")
    images = find_images(tmp_path)
    assert images.ids == ["a\\xffé"] and images.paths[0].is_file() and images.digest()


def test_unreadable_images_are_listed_with_their_reasons_a_line_each(tmp_path: Path) -> None:
    paths = [tmp_path / "two\nlines.png", tmp_path / "none.png", tmp_path / "small.png"]
    paths[0].write_bytes(b"")
    Image.new("RGB", (3, 99)).save(paths[2])
    list_unreadable(tmp_path / "list.txt", paths)
    lines = (tmp_path / "list.txt").read_text().splitlines()
    assert [Path(line.split("\t")[0]).name for line in lines] == ["two\\nlines.png", "none.png", "small.png"]
    reasons = [line.split("\t")[1] for line in lines]
    assert reasons[0] == "is empty" and "cannot be read" in reasons[1] and "at least 8 pixels" in reasons[2]
    list_unreadable(tmp_path / "list.txt", [])
    assert not (tmp_path / "list.txt").exists()


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
    ],
)
def test_wrong_label_files_get_one_message(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_labels(path, IMAGES)


def test_class_folders(tmp_path: Path) -> None:
    touch(tmp_path, "dog/1.jpg", "cat/deep/1.jpg", "cat/2.JPEG", "cat/readme.txt")
    labelled = read_class_folders(tmp_path)
    assert labelled.images.ids == ["cat/2", "cat/deep/1", "dog/1"]
    assert labelled.names == ["cat", "dog"] and labelled.labels.tolist() == [0, 0, 1]
    (tmp_path / "loose.jpg").write_bytes(b"x")
    with pytest.raises(UserError, match="1 images are not in a class folder; the first is 'loose'"):
        read_class_folders(tmp_path)


def test_missing_parts_are_all_named_and_a_ground_truth_is_optional(tmp_path: Path) -> None:
    (tmp_path / "reference_images").mkdir()
    with pytest.raises(UserError, match=r"lacks training_images/, query_images/"):
        open_isc_folder(tmp_path)
    touch(tmp_path, *(f"{name}_images/{name}.jpg" for name in ("training", "reference", "query")))
    assert open_isc_folder(tmp_path).ground_truth is None
    (tmp_path / "public_ground_truth.csv").write_text("query_id,reference_id\n")
    opened = open_isc_folder(tmp_path)
    assert opened.ground_truth == tmp_path / "public_ground_truth.csv"
    assert opened.query.ids == ["query"]


@given(st.integers(40, 400), st.integers(0, 5), st.floats(0.1, 0.4), st.floats(0.03, 0.3))
def test_roles_are_disjoint_and_complete(count: int, seed: int, validation: float, overlay: float) -> None:
    ids = [f"T{number:06d}" for number in range(count)]
    split = split_training(ids, seed, validation, overlay)
    roles = [split.classes, split.overlays, split.references, split.distractors]
    assert sorted(image_id for role in roles for image_id in role) == ids
    assert abs(len(split.references) - 2 * len(split.distractors)) <= 2
    assert len(split.references) + len(split.distractors) == round(validation * count)
    assert len(split.overlays) == round(overlay * count)
    assert split == split_training(ids[::-1], seed, validation, overlay)
    assert split.classes != split_training(ids, seed + 1, validation, overlay).classes


def test_too_few_images_say_which_role_is_empty() -> None:
    with pytest.raises(UserError, match="no image is left for overlays"):
        split_training(["a", "b", "c", "d", "e"], 0, 0.4, 0.05)
