import hashlib
import os
from pathlib import Path

import pytest
from PIL import Image

from image_copies.data.cache import cache_images
from image_copies.data.errors import UserError
from image_copies.data.images import find_images


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_ids_are_stems_or_paths_and_sorted(tmp_path: Path) -> None:
    touch(tmp_path, "b.JPG", "sub/a.png", "notes.txt", ".hidden.jpg", "c.tar.jpeg")
    assert find_images(tmp_path).ids == ["a", "b", "c.tar"]
    found = find_images(tmp_path, naming="path")
    assert found.ids == ["b", "c.tar", "sub/a"]
    assert found.paths[2] == tmp_path / "sub" / "a.png"


def test_what_is_listed_is_what_a_recursive_search_finds(tmp_path: Path) -> None:
    """Hidden folders are searched, hidden files and links to folders are not; broken links are images that cannot be read."""
    touch(tmp_path / "there", "b/a.x.jpg", "b/..jpg", ".hidden/c.png", "b/a", "b.jpg/d.webp", "e.TIF", "a b/f.jpg", "g.jpg.txt")
    (tmp_path / "there" / "link.jpg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "there" / "again").symlink_to(tmp_path / "there" / "b")
    (tmp_path / "there" / "folder.png").symlink_to(tmp_path / "there" / "b")
    images = find_images(tmp_path / "there", naming="file")
    assert images.ids == [".hidden/c.png", "a b/f.jpg", "b.jpg/d.webp", "b/a.x.jpg", "e.TIF", "link.jpg"]
    assert images.paths == [tmp_path / "there" / name for name in images.ids]
    assert find_images(tmp_path / "there").ids == ["a.x", "c", "d", "e", "f", "link"]


def test_two_files_with_one_id_are_named(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "a.png")
    with pytest.raises(UserError, match=r"a\.jpg and .*a\.png share the id 'a'"):
        find_images(tmp_path)


def test_missing_and_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        find_images(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds no image"):
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
