from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.preprocessing import PreprocessedImages, preprocess
from image_copies.data.squares import decode_square

SHAPES = {"a": (60, 90), "b": (90, 60), "c": (40, 60), "d": (50, 50)}


@pytest.fixture
def images(tmp_path: Path) -> ImageSet:
    for name, (height, width) in SHAPES.items():
        pixels = np.random.default_rng(len(name)).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    (tmp_path / "e.png").write_bytes(b"no image")
    return find_images(tmp_path)


def test_squares_are_those_of_all_decoding(images: ImageSet) -> None:
    for path, (pixels, readable) in zip(images.paths, PreprocessedImages(images, 32).__getitems__(list(range(5))), strict=True):
        square, decoded = decode_square(path, 32)
        assert torch.equal(pixels, torch.from_numpy(square)) and readable == decoded == (path.stem != "e")


@pytest.mark.parametrize("protocol", ["square", "center_crop", "square_crop", "long_side"])
def test_unreadable_images_are_marked_and_zero(images: ImageSet, protocol: str) -> None:
    pixels, readable = PreprocessedImages(images, 28, protocol)[4]  # type: ignore[arg-type]
    assert not readable and pixels.shape == (3, 28, 28) and pixels.dtype == torch.uint8 and not pixels.any()


def test_protocols_crop_as_they_say_and_others_are_refused(images: ImageSet) -> None:
    """An image of 256 × 300 at 224 is not resized: the cut is exact, 16 from top and bottom, 38 from the sides."""
    pixels = np.random.default_rng(0).integers(0, 256, (256, 300, 3), dtype=np.uint8)
    assert (preprocess(pixels, 224, "center_crop") == pixels[16:240, 38:262]).all()
    for shape in ((64, 500), (500, 64), (10, 9)):
        assert preprocess(np.zeros((*shape, 3), np.uint8), 224, "center_crop").shape == (224, 224, 3)
    columns = np.repeat(np.arange(256, dtype=np.uint8), 2)
    pixels = np.broadcast_to(columns[None, :, None], (256, 512, 3))
    assert (preprocess(pixels, 224, "square_crop") == np.arange(16, 240, dtype=np.uint8)[None, :, None]).all()
    left_right = np.zeros((40, 100, 3), np.uint8)
    left_right[:, :50] = 200
    shown = preprocess(left_right, 50, "long_side")
    assert shown.shape == (20, 50, 3) and (shown[:, :24] == 200).all() and (shown[:, 26:] == 0).all()
    assert preprocess(np.zeros((300, 200, 3), np.uint8), 600, "long_side").shape == (600, 400, 3)
    with pytest.raises(UserError, match="choose one of square, center_crop, square_crop, long_side"):
        PreprocessedImages(images, 30, "five_crops")  # type: ignore[arg-type]
