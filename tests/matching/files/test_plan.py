"""What a plan removes of a group: nothing that holds more than the file that is kept."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.matching.files.facts import picture_facts
from image_copies.matching.files.plan import PlanRow, plan_group, read_plan, write_plan


def draw(side: int, seed: int = 0) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8)
    return Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)


def plan(folder: Path) -> dict[str, PlanRow]:
    """The plan for a folder whose files all match each other, as it is read from its file."""
    members = [picture_facts(path) for path in sorted(folder.iterdir())]
    digests = {facts.path: hashlib.sha256(facts.path.read_bytes()).digest() for facts in members}
    rows = plan_group(1, members, digests, "largest", [], lambda path: False, lambda one, other: -0.1)
    write_plan(folder / "plan.csv", rows)
    return {row.file.name: row for row in read_plan(folder / "plan.csv")}


@pytest.mark.parametrize("name", ["pages.tif", "frames.gif", "frames.png", "frames.webp"])
def test_what_has_more_frames_or_pages_stays(tmp_path: Path, name: str) -> None:
    """A TIFF of three pages was removed for a PNG of its first."""
    draw(64).save(tmp_path / name, save_all=True, append_images=[draw(64, 1), draw(64, 2)])
    draw(96).save(tmp_path / "first.png")
    draw(32).save(tmp_path / "small.png")
    rows = plan(tmp_path)
    assert (rows[name].action, rows[name].reason) == ("leave", "has 3 frames or pages, the kept file 1")
    assert rows["first.png"].action == "keep" and rows["small.png"].action == "remove"


def test_of_as_large_pictures_the_one_with_all_pages_is_kept(tmp_path: Path) -> None:
    draw(64).save(tmp_path / "pages.tif", save_all=True, append_images=[draw(64, 1)])
    draw(64).save(tmp_path / "first.png")
    rows = plan(tmp_path)
    assert rows["pages.tif"].reason == "as large, more frames or pages: 2, the next 1" and rows["first.png"].action == "remove"


@pytest.mark.parametrize("progressive", [False, True])
def test_a_damaged_file_does_not_win_over_an_intact_one(
    tmp_path: Path, progressive: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """A JPEG with a broken scan was kept, because it had more bytes."""
    written = io.BytesIO()
    draw(400).save(written, "JPEG", quality=95, progressive=progressive)
    whole, half = written.getvalue(), len(written.getvalue()) // 2
    (tmp_path / "broken.jpg").write_bytes(whole[:half] + bytes(300) + whole[half + 300 :] + bytes(5000))
    (tmp_path / "cut.jpg").write_bytes(whole[:half] + b"\xff\xd9" + bytes(len(whole)))
    (tmp_path / "whole.jpg").write_bytes(whole)
    rows = plan(tmp_path)
    assert (rows["whole.jpg"].action, rows["whole.jpg"].reason) == (
        "keep",
        f"{tmp_path / 'cut.jpg'}, which comes before it, is damaged",
    )
    assert rows["broken.jpg"].action == rows["cut.jpg"].action == "remove"
    assert capfd.readouterr() == ("", "")
