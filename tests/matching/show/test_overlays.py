"""One of two copies laid on the other: which gives the frame, that they meet, and that only what differs is framed."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from image_copies.data.arrays import UInt8s
from image_copies.matching.show.overlays import RED, LaidPair, lay_pair
from tests.pictures import draw


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    return draw(4, 640, 480)


def lay(folder: Path, first: Image.Image, second: Image.Image) -> LaidPair:
    first.save(folder / "first.png")
    second.save(folder / "second.jpg", quality=90)
    overlay = lay_pair(folder / "first.png", folder / "second.jpg")
    assert overlay is not None
    return overlay


def apart(one: UInt8s, other: UInt8s) -> float:
    return float(np.abs(one.astype(float) - other).mean())


def test_a_crop_that_was_turned_lies_on_what_shows_more(tmp_path: Path, picture: Image.Image) -> None:
    crop = picture.crop((100, 60, 500, 420)).transpose(Image.Transpose.ROTATE_90)
    for pair, frame in (((picture, crop), 0), ((crop, picture), 1)):
        overlay = lay(tmp_path, *pair)
        assert overlay.frame == frame and overlay.under.shape == overlay.laid.shape == (480, 640, 3)
        inside, outside = (slice(80, 400), slice(120, 480)), (slice(440, 480), slice(0, 640))
        assert apart(overlay.laid[inside], overlay.under[inside]) < 8 < 40 < apart(overlay.laid[outside], overlay.under[outside])
        assert overlay.frames == 0


def test_what_was_laid_over_is_framed_and_other_tones_are_not(tmp_path: Path, picture: Image.Image) -> None:
    brighter = Image.eval(picture, lambda value: min(255, round(1.2 * value + 10)))
    assert lay(tmp_path, picture, brighter).frames == 0
    ImageDraw.Draw(brighter).rectangle((300, 200, 380, 250), "white", "black")
    overlay = lay(tmp_path, picture, brighter)
    rows, columns = np.where((overlay.differences == RED).all(axis=2))
    assert overlay.frames == 1 and 185 < rows.min() < 200 < 250 < rows.max() < 265
    assert 285 < columns.min() < 300 < 380 < columns.max() < 395


def test_a_plain_caption_on_a_dark_picture_differs_as_a_whole(tmp_path: Path, picture: Image.Image) -> None:
    """Nothing else has its tone, which could therefore be taken for that of what it covers."""
    dark = Image.eval(picture, lambda value: value // 4)
    captioned = dark.copy()
    ImageDraw.Draw(captioned).rectangle((60, 360, 420, 440), "white")
    overlay = lay(tmp_path, dark, captioned)
    assert overlay.frames == 1 and (overlay.differences[370:430, 70:410] == RED).all(axis=2).mean() > 0.9


def test_it_is_shown_in_a_notebook_and_in_a_file(tmp_path: Path, picture: Image.Image) -> None:
    picture.save(tmp_path / "<b>.png")
    picture.resize((320, 240)).save(tmp_path / "small.png")
    pair = lay_pair(tmp_path / "<b>.png", tmp_path / "small.png")
    assert pair is not None
    shown = pair._repr_html_()
    assert "<b>" not in shown and "small.png on &lt;b&gt;.png" in shown and shown.count("data:image/jpeg") == 3
    pair.save(tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as out:
        assert (out.width, out.height) == (3 * 640 + 16, 480)


def test_the_first_picture_comes_first_whichever_gives_the_frame(tmp_path: Path, picture: Image.Image) -> None:
    assert [lay(tmp_path, picture, picture).frame for _ in range(3)] == [0, 0, 0]
    assert lay(tmp_path, picture.resize((320, 240)), picture).frame == 1, "it has more pixels"
    red, blue = (np.full((60, 240, 3), colour, np.uint8) for colour in ((200, 0, 0), (0, 0, 200)))
    for frame, first in ((0, (200, 0, 0)), (1, (0, 0, 200))):
        LaidPair((tmp_path / "a.jpg", tmp_path / "b.jpg"), frame, red, blue, red, 0).save(tmp_path / "out.png")
        with Image.open(tmp_path / "out.png") as out:
            assert out.getpixel((120, out.height - 30)) == first


def test_pictures_that_share_nothing_are_not_laid(tmp_path: Path, picture: Image.Image) -> None:
    picture.save(tmp_path / "one.png")
    Image.fromarray(np.random.default_rng(2).integers(0, 256, (300, 400, 3), np.uint8)).save(tmp_path / "other.png")
    assert lay_pair(tmp_path / "one.png", tmp_path / "other.png") is None
