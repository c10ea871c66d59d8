"""What was done to a copy is said in plain words, the figures after it in brackets."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from image_copies.matching.matches import Match
from image_copies.matching.pairs import PairJudge
from tests.pictures import draw

Edit = Callable[[Image.Image], Image.Image]
SIDE = 480


def caption(picture: Image.Image) -> Image.Image:
    ImageDraw.Draw(picture).rectangle((100, 300, 380, 340), "white", "black")
    return picture


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda picture: Image.eval(picture, lambda value: min(255, round(1.15 * value + 12))), "brighter, otherwise the same"),
        (lambda picture: picture.crop((48, 0, SIDE, SIDE)), "cropped to 90 %, otherwise the same"),
        (lambda picture: picture.rotate(90), "turned by 90°, otherwise the same"),
        (ImageOps.mirror, "mirrored, otherwise the same"),
        (ImageOps.flip, "flipped upside down, otherwise the same"),
        (ImageOps.invert, "a negative, otherwise the same"),
        (lambda picture: picture.resize((SIDE, 400)), "stretched, otherwise the same"),
        (lambda picture: ImageOps.expand(picture, 40, "white"), "framed"),
        (lambda picture: picture.convert("L"), "without its colours, otherwise the same"),
        (lambda picture: picture.resize((240, 240)), "the same picture"),
        (lambda picture: picture.filter(ImageFilter.GaussianBlur(2)), "blurred, otherwise the same"),
        (caption, "captioned or covered in part"),
    ],
)
def test_an_edit_is_said_in_words(tmp_path: Path, edit: Edit, words: str) -> None:
    picture = draw(3, SIDE, SIDE)
    picture.save(tmp_path / "original.png")
    edit(picture.copy()).save(tmp_path / "copy.png")
    judge = PairJudge()
    for names in (("copy.png", "original.png"), ("original.png", "copy.png")):
        judgement = judge.judge(Match(tmp_path / names[0], tmp_path / names[1]))
        assert judgement.kind == "certain"
        said, _, figures = judgement.reason.partition(" (")
        assert said == words and "agreement of" in figures
