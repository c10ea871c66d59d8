"""Of two pictures the one goes that has nothing that the other lacks, as by the plan of match."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from image_copies.matching.dedup.planning import PairPlanner, PairVerdict
from image_copies.matching.files.originals import EditComparer
from tests.pictures import draw

Picture = Image.Image


def write(picture: Picture, text: str, size: int = 40) -> Picture:
    shown = picture.copy()
    ImageDraw.Draw(shown).text((40, 280), text, (255, 255, 255), font_size=size, stroke_width=3, stroke_fill=(0, 0, 0))
    return shown


def plan(folder: Path, going: Path, staying: Path, leaked: bool = False) -> PairVerdict:
    """What becomes of `going`, numbered as in a table; the pictures are gone from the folder of the work."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    planner = PairPlanner(work, lambda number: (paths[number].name, paths[number].read_bytes()))
    paths = [going, staying]
    return planner.plan(0, 1, leaked)


def test_a_smaller_copy_goes_and_nothing_is_left_of_earlier_pairs(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("original.jpg", "smaller.jpg", "other.jpg")]
    draw(3).save(paths[0], quality=92)
    Image.open(paths[0]).resize((360, 270)).save(paths[1], quality=80)
    draw(5).save(paths[2])
    (tmp_path / "work").mkdir()
    planner = PairPlanner(tmp_path / "work", lambda number: (paths[number].name, paths[number].read_bytes()))
    verdict = planner.plan(1, 0, False)
    assert verdict.kind == "certain" and not verdict.missed
    assert planner.plan(2, 0, False).kind not in ("same file", "certain")
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["0", "2"]
    assert planner.plan(1, 0, False) == verdict


@pytest.mark.parametrize(
    ("going", "staying", "reason"),
    [
        (draw(3), write(draw(3), "(c) a shop"), "has something laid over it"),
        (write(draw(3), "(c) a shop"), draw(3), "lacks"),
    ],
)
def test_what_has_something_of_its_own_is_to_be_looked_at(tmp_path: Path, going: Picture, staying: Picture, reason: str) -> None:
    """A clean photograph went as certain for one with a watermark."""
    files = tmp_path / "going.jpg", tmp_path / "staying.jpg"
    for picture, path in zip((going, staying), files, strict=True):
        picture.save(path, quality=93)
    verdict = plan(tmp_path, *files)
    assert verdict.missed and reason in verdict.reason and verdict.kind == "certain"
    assert not plan(tmp_path, *files, leaked=True).missed, "whatever it has, a test set holds it"


def test_no_original_is_named_as_nobody_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took three quarters of the time."""
    monkeypatch.setattr(EditComparer, "find_origin", None)
    files = tmp_path / "going.jpg", tmp_path / "staying.jpg"
    for picture, path in zip((draw(3), write(draw(3), "(c) a shop")), files, strict=True):
        picture.save(path, quality=93)
    assert plan(tmp_path, *files).missed


def test_memes_with_other_captions_are_not_certain(tmp_path: Path) -> None:
    files = tmp_path / "going.jpg", tmp_path / "staying.jpg"
    for text, path in zip(("ALL OF US", "NONE OF YOU"), files, strict=True):
        write(draw(3), text).save(path, quality=93)
    assert plan(tmp_path, *files).kind == "likely"


def test_an_invoice_with_another_total_stays(tmp_path: Path) -> None:
    files = tmp_path / "going.png", tmp_path / "staying.png"
    for path, total in zip(files, ("1,284.50", "7,961.30"), strict=True):
        page = Image.new("L", (600, 800), 255)
        pen, rng = ImageDraw.Draw(page), np.random.default_rng(0)
        for line in range(18):
            words = "  ".join("".join(chr(97 + letter) for letter in rng.integers(0, 26, 7)) for _ in range(4))
            pen.text((40, 40 + 36 * line), words, 0, font_size=24)
        pen.text((40, 720), f"Total {total}", 0, font_size=30)
        page.save(path)
    verdict = plan(tmp_path, *files)
    assert verdict.missed or verdict.kind not in ("same file", "certain")


def test_a_tiff_with_other_pages_stays(tmp_path: Path) -> None:
    pages = [draw(seed) for seed in range(3)]
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:])
    pages[0].save(tmp_path / "first.png")
    verdict = plan(tmp_path, tmp_path / "pages.tif", tmp_path / "first.png")
    assert verdict.missed or verdict.kind not in ("same file", "certain")
    assert not plan(tmp_path, tmp_path / "first.png", tmp_path / "pages.tif").missed


def test_nothing_goes_for_a_damaged_picture(tmp_path: Path) -> None:
    draw(3).save(tmp_path / "staying.jpg", quality=95)
    content = (tmp_path / "staying.jpg").read_bytes()
    Image.open(tmp_path / "staying.jpg").resize((360, 270)).save(tmp_path / "going.jpg", quality=80)
    assert not plan(tmp_path, tmp_path / "going.jpg", tmp_path / "staying.jpg").missed
    (tmp_path / "staying.jpg").write_bytes(content[: len(content) - 2000])
    verdict = plan(tmp_path, tmp_path / "going.jpg", tmp_path / "staying.jpg")
    assert verdict.missed or verdict.kind not in ("same file", "certain")
