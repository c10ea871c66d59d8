"""Three functions from Python: copies in folders, two pictures, vectors; they write nothing and need no run."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import image_copies
from image_copies.data.errors import UserError
from image_copies.data.procedural.sample import write_pictures


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interface") / "album"
    list(write_pictures(folder, "R", 4, seed=1, workers=1))
    with Image.open(folder / "R000002.jpg") as image:
        image.resize((image.width // 2, image.height // 2)).save(folder / "small.jpg")
    return folder


def test_copies_are_grouped_with_the_larger_first_and_nothing_is_written(album: Path) -> None:
    before = sorted(album.iterdir())
    assert image_copies.find_copies(album) == [[album / "R000002.jpg", album / "small.jpg"]]
    assert sorted(album.iterdir()) == before


def test_two_pictures_are_compared(album: Path) -> None:
    assert image_copies.compare(album / "R000002.jpg", album / "small.jpg").copy
    assert not image_copies.compare(album / "R000002.jpg", album / "R000001.jpg").copy
    shutil.copy(album / "R000001.jpg", album.parent / "again.jpg")
    assert image_copies.compare(album / "R000001.jpg", str(album.parent / "again.jpg")).reason == "the same bytes"


def test_vectors_have_unit_length_and_copies_are_near(album: Path) -> None:
    vectors = image_copies.embed([album / "R000002.jpg", album / "small.jpg", album / "R000001.jpg"])
    assert vectors.shape == (3, 256) and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.95 > vectors[0] @ vectors[2]


def test_what_cannot_be_decoded_is_named(album: Path) -> None:
    broken = album.parent / "broken.jpg"
    broken.write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"broken\.jpg cannot be decoded"):
        image_copies.embed([album / "R000002.jpg", broken])
    assert image_copies.embed([]).shape == (0, 256)
    assert np.array_equal(image_copies.embed(str(album / "R000002.jpg")), image_copies.embed([album / "R000002.jpg"]))
    with pytest.raises(AttributeError, match="no attribute 'find_copy'"):
        image_copies.find_copy  # noqa: B018
