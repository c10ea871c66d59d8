"""Of two pictures the one goes that has nothing that the other lacks, as by the plan of match."""

import hashlib
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from image_copies.matching.dedup.deciding import Verdict, make_knowledge, plan_pair
from image_copies.matching.files.originals import EditComparer
from tests.pictures import draw

Picture = Image.Image


def write(picture: Picture, text: str, size: int = 40) -> Picture:
    shown = picture.copy()
    ImageDraw.Draw(shown).text((40, 280), text, (255, 255, 255), font_size=size, stroke_width=3, stroke_fill=(0, 0, 0))
    return shown


def plan(going: Path, staying: Path, leaked: bool = False) -> Verdict:
    digests = {path: hashlib.sha256(path.read_bytes()).digest() for path in (going, staying)}
    return plan_pair(make_knowledge(digests), going, staying, leaked)


def save_two(folder: Path, going: Picture, staying: Picture) -> tuple[Path, Path]:
    files = folder / "going.jpg", folder / "staying.jpg"
    for picture, path in zip((going, staying), files, strict=True):
        picture.save(path, quality=93)
    return files


def test_a_smaller_copy_goes_also_if_it_is_a_link(tmp_path: Path) -> None:
    original, smaller, other, link = (tmp_path / name for name in ("original.jpg", "smaller.jpg", "other.jpg", "link.jpg"))
    draw(3).save(original, quality=92)
    Image.open(original).resize((360, 270)).save(smaller, quality=80)
    draw(5).save(other)
    link.symlink_to(smaller)
    verdict = judgement, missed = plan(smaller, original)
    assert judgement.kind == "certain" and not missed
    assert plan(other, original)[0].kind not in ("same file", "certain")
    assert plan(smaller, original) == plan(link, original) == verdict


@pytest.mark.parametrize(
    ("going", "staying", "reason"),
    [
        (draw(3), write(draw(3), "(c) a shop"), "has something laid over it"),
        (write(draw(3), "(c) a shop"), draw(3), "lacks"),
    ],
)
def test_what_has_something_of_its_own_is_to_be_looked_at(tmp_path: Path, going: Picture, staying: Picture, reason: str) -> None:
    """A clean photograph went as certain for one with a watermark."""
    files = save_two(tmp_path, going, staying)
    judgement, missed = plan(*files)
    assert missed and reason in judgement.reason and judgement.kind == "certain"
    assert not plan(*files, leaked=True)[1], "whatever it has, a test set holds it"


def test_no_original_is_named_as_nobody_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took three quarters of the time."""
    monkeypatch.setattr(EditComparer, "find_made", None)
    assert plan(*save_two(tmp_path, draw(3), write(draw(3), "(c) a shop")))[1]


def test_a_tiff_with_other_pages_stays(tmp_path: Path) -> None:
    pages = [draw(seed) for seed in range(3)]
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:])
    pages[0].save(tmp_path / "first.png")
    judgement, missed = plan(tmp_path / "pages.tif", tmp_path / "first.png")
    assert missed or not judgement.is_certain
    assert not plan(tmp_path / "first.png", tmp_path / "pages.tif")[1]


def test_nothing_goes_for_a_damaged_picture(tmp_path: Path) -> None:
    draw(3).save(tmp_path / "staying.jpg", quality=95)
    content = (tmp_path / "staying.jpg").read_bytes()
    Image.open(tmp_path / "staying.jpg").resize((360, 270)).save(tmp_path / "going.jpg", quality=80)
    assert not plan(tmp_path / "going.jpg", tmp_path / "staying.jpg")[1]
    (tmp_path / "staying.jpg").write_bytes(content[: len(content) - 2000])
    judgement, missed = plan(tmp_path / "going.jpg", tmp_path / "staying.jpg")
    assert missed or not judgement.is_certain
