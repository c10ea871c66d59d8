from pathlib import Path

import pytest
from PIL import Image

from image_copies.augmentations.contact_sheet import draw_contact_sheets
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import write_pictures


@pytest.fixture
def pictures(tmp_path: Path) -> ImageSet:
    list(write_pictures(tmp_path / "pictures", "T", 12, seed=1, workers=1))
    return find_images(tmp_path / "pictures")


def drawn(images: ImageSet, overlays: ImageSet, folder: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """The sizes of the sheets of edits and of compositions."""
    draw_contact_sheets(images, overlays, 2, 0, folder / "edits.jpg", folder / "compositions.jpg")
    with Image.open(folder / "edits.jpg") as edits, Image.open(folder / "compositions.jpg") as compositions:
        return edits.size, compositions.size


def test_unreadable_images_and_overlays_are_skipped(pictures: ImageSet, tmp_path: Path) -> None:
    images, overlays = pictures.select(pictures.ids[:6]), pictures.select(pictures.ids[6:])
    whole = drawn(images, overlays, tmp_path / "whole")
    for path in (images.paths[0], overlays.paths[0]):
        path.write_bytes(b"")
    images.paths[1].write_bytes(images.paths[1].read_bytes()[:500])
    assert drawn(images, overlays, tmp_path / "some") == whole
    for path in overlays.paths:
        path.write_text("not an image")
    edits, compositions = drawn(images, overlays, tmp_path / "no overlay")
    assert edits[1] < whole[0][1] and compositions == whole[1]


def test_without_a_readable_image_the_first_is_named(pictures: ImageSet, tmp_path: Path) -> None:
    for path in pictures.paths:
        path.write_bytes(b"")
    with pytest.raises(UserError, match=r"none of 12 images can be read, the first is .*T000000\.jpg"):
        drawn(pictures, pictures, tmp_path / "sheets")
