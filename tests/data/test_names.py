"""Names of files that are no text, or that break lines, become text."""

import os
from pathlib import Path

import pytest
from PIL import Image

from image_copies.data.decode import list_unreadable
from image_copies.data.errors import line_of, text_of
from image_copies.data.images import find_images

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
