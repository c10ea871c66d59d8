"""What a plan removes of a group: nothing that holds more than the file that is kept."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from image_copies.matching.files.companions import find_companions
from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.keeping import KeepSettings
from image_copies.matching.files.plan import PlanRow, list_companions, read_plan, write_plan
from image_copies.matching.groups.group_plan import plan_group
from image_copies.matching.matches import Match
from image_copies.matching.verification.judgement import Judgement, Kind
from tests.pictures import encode
from tests.search_results import CERTAIN, know_alike, know_all_alike

Judge = Callable[[Path, Path], Judgement]
LIKELY = Judgement("likely", "the pixels agree in part", 70)


def draw(side: int, seed: int = 0) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8)
    return Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)


def save(folder: Path, **sides: int) -> list[Facts]:
    """Save one picture in files of several sizes."""
    for name, side in sides.items():
        draw(side).save(folder / f"{name}.png")
    return [picture_facts(folder / f"{name}.png") for name in sides]


def plan(folder: Path, members: Sequence[Facts] = (), judge: Judge = lambda *pair: CERTAIN) -> dict[str, PlanRow]:
    """The plan for files that all match each other, those of the folder unless they are named, as it is read from its file."""
    members = members or [picture_facts(path) for path in sorted(folder.iterdir()) if path.suffix != ".csv"]
    rows = plan_group(1, [facts.path for facts in members], know_all_alike(members, judge), KeepSettings())
    write_plan(folder / "plan.csv", rows)
    return {row.file.name: row for row in read_plan(folder / "plan.csv")}


def test_a_file_goes_only_for_one_that_it_is_certainly_a_copy_of_itself(tmp_path: Path) -> None:
    """C certainly is a copy of B, and B of A, but C not of A: that B goes for A takes nobody's copy from C."""
    members = save(tmp_path, a=96, b=64, c=48, d=32)
    certain = {frozenset("ab"), frozenset("bc"), frozenset("cd"), frozenset("bd")}
    rows = plan(tmp_path, members, lambda *pair: CERTAIN if {path.stem for path in pair} in certain else LIKELY)
    kept = {row.file.stem: (row.action, row.kept.stem) for row in rows.values()}
    assert kept == {"a": ("keep", "a"), "b": ("remove", "a"), "c": ("keep", "c"), "d": ("remove", "c")}


@pytest.mark.parametrize("name", ["pages.tif", "frames.gif", "frames.png", "frames.webp"])
def test_what_has_more_frames_or_pages_stays(tmp_path: Path, name: str) -> None:
    """A TIFF of three pages was removed for a PNG of its first."""
    draw(64).save(tmp_path / name, save_all=True, append_images=[draw(64, 1), draw(64, 2)])
    draw(96).save(tmp_path / "first.png")
    draw(32).save(tmp_path / "small.png")
    rows = plan(tmp_path)
    assert rows[name].action == "review" and "it has 3 frames or pages instead of 1, unlike the kept file" in rows[name].reason
    assert rows["first.png"].action == "keep" and rows["small.png"].action == "remove"


def test_of_as_large_pictures_the_one_with_all_pages_is_kept_whatever_their_bytes(tmp_path: Path) -> None:
    draw(64).save(tmp_path / "frames.webp", save_all=True, append_images=[draw(64, 1)], quality=80)
    draw(64).save(tmp_path / "first.png", compress_level=0)
    rows = plan(tmp_path)
    assert rows["frames.webp"].reason == "as large, more frames or pages: 2, the next 1" and rows["first.png"].action == "remove"
    assert (tmp_path / "frames.webp").stat().st_size < (tmp_path / "first.png").stat().st_size


def test_a_link_of_the_album_is_not_left_without_its_file(tmp_path: Path) -> None:
    save(tmp_path, a=64, b=64, c=64)
    (tmp_path / "album").mkdir()
    (tmp_path / "album" / "link.png").symlink_to("../b.png")
    (tmp_path / "album" / "second.png").symlink_to("../c.png")
    members = [picture_facts(path) for path in sorted(tmp_path.rglob("*.png"))]
    rows = plan(tmp_path, members)
    assert rows["b.png"].action == "keep"
    assert (rows["a.png"].action, rows["link.png"].action) == ("remove", "leave")
    assert (rows["c.png"].action, rows["c.png"].reason) == ("leave", "a link leads to it")


def test_what_belongs_to_a_picture_is_listed_with_it(tmp_path: Path) -> None:
    draw(96).save(tmp_path / "large.png")
    draw(64).save(tmp_path / "IMG_1.JPG")
    draw(48).save(tmp_path / "two.png")
    draw(32).save(tmp_path / "two.jpg")
    own = ["IMG_1.AAE", "IMG_1.CR2", "IMG_1.JPG.json", "IMG_1.mov", "IMG_1.txt", "IMG_1.xmp"]
    large = ["large.aae", "large.cr2", "large.png.json", "large.MOV", "large.txt"]
    for name in (*own, *large, "IMG_10.xmp", "IMG_1b.mov", "two.xmp", "two.jpg.xmp", "large.xmp"):
        (tmp_path / name).write_text(f"<x>{name[-3:].lower()}</x>")
    members = [picture_facts(path) for path in sorted(tmp_path.iterdir()) if path.suffix.lower() in (".png", ".jpg")]
    rows = plan(tmp_path, members)
    assert rows["IMG_1.JPG"].action == "remove" and [path.name for path in list_companions(rows["IMG_1.JPG"])] == own
    assert [path.name for path in list_companions(rows["two.jpg"])] == ["two.jpg.xmp"] and not list_companions(rows["two.png"])
    assert not list_companions(rows["large.png"])


LONG = "a_very_long_name_of_a_picture_that_a_messenger_saved"


@pytest.mark.parametrize(
    ("picture", "other", "beside"),
    [
        ("PXL_1.RAW-01.COVER.jpg", "PXL_1.RAW-02.ORIGINAL.dng", ""),
        ("PXL_1.RAW-01.MP.COVER.jpg", "PXL_1.RAW-02.ORIGINAL.dng", "PXL_2.RAW-01.MP.COVER.jpg"),
        ("PXL_2.MP.jpg", "PXL_2.MP", "PXL_2.jpg"),
        (f"{LONG}.jpg", f"{LONG[:46]}.json", f"{LONG[:44]}.jpg"),
        ("IMG_7-edited.jpg", "IMG_7.jpg.supplemental-metadata.json", "IMG_7.png"),
        ("IMG_7-edited(1).jpg", "IMG_7.jpg(1).json", "IMG_7.jpg"),
        ("IMG_7(1).jpg", "IMG_7.jpg.supplemental-metadata(1).json", "IMG_7.jpg"),
        *((name, "", name.replace("-edited", "")) for name in ("IMG_7-edited.jpg", "IMG_7-edited(1).jpg")),
        (f"{LONG}.jpg", "", f"{LONG}_again.jpg"),
        *(("IMG_E12.JPG", "", name) for name in ("IMG_12.HEIC", "IMG_E12.PNG")),
        *(("b.jpg", name, "c.jpg") for name in ("b_01.jpg.xmp", "B.XMP", "b.JPG.json")),
        ("b_01.jpg", "b_01.jpg.xmp", "b.jpg"),
        *((name, "IMG_O12.AAE", "IMG_13.JPG") for name in ("IMG_12.HEIC", "IMG_E12.JPG")),
        ("IMG_E12.JPG", "IMG_12.AAE", "IMG_E13.JPG"),
    ],
)
def test_files_of_telephones_and_of_takeout_belong_to_a_picture(tmp_path: Path, picture: str, other: str, beside: str) -> None:
    """`beside`: another picture; without `other`, what else the table names is its own, or belongs to both."""
    notes = ("IMG_7.jpg.supplemental-metadata.json", "IMG_7.jpg(1).json", f"{LONG[:46]}.json", "IMG_O12.AAE", "IMG_12.AAE")
    for name in (picture, other, beside, *(() if other else notes)):
        (tmp_path / (name or "none")).touch()
    assert find_companions(tmp_path / picture) == ((other,) if other else ())


@pytest.mark.parametrize("name", ["IMG_1.mov", "IMG_1.CR2", "IMG_1.JPG.json", "IMG_1.aae"])
def test_what_belongs_to_a_picture_is_not_lost_with_it(tmp_path: Path, name: str) -> None:
    """The RAW file or the film of a Live Photo went with a copy, though nothing like it lies next to what stays."""
    draw(96).save(tmp_path / "large.jpg")
    draw(64).save(tmp_path / "IMG_1.JPG")
    (tmp_path / "b").mkdir()
    draw(64).save(tmp_path / "b" / "IMG_1.JPG")
    (tmp_path / name).write_text("its own")
    members = [picture_facts(path) for path in (tmp_path / "IMG_1.JPG", tmp_path / "large.jpg")]
    row = plan(tmp_path, members)["IMG_1.JPG"]
    assert row.action == "review" and f"it has {name}, unlike the kept file" in row.reason
    other = tmp_path / name.replace("IMG_1.JPG", "large.jpg").replace("IMG_1", "large")
    other.write_text("its other")
    assert plan(tmp_path, [*map(picture_facts, (row.file, row.kept))])["IMG_1.JPG"].action == "review"
    other.write_text("its own")
    assert plan(tmp_path, [*map(picture_facts, (row.file, row.kept))])["IMG_1.JPG"].action == "remove"


def test_a_raw_file_goes_where_its_picture_goes_alone(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        draw(64).save(tmp_path / folder / "x.dng", "TIFF")
    members = [picture_facts(tmp_path / folder / "x.dng") for folder in ("a", "b")]
    assert plan(tmp_path, members)["x.dng"].action == "remove"  # that of b/
    draw(64).save(tmp_path / "b" / "x.jpg")
    row = plan(tmp_path, members)["x.dng"]
    assert (row.action, row.reason) == ("leave", "a RAW file, which goes where x.jpg goes")


def test_of_as_large_pictures_the_one_that_more_belongs_to_is_kept(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        draw(64).save(tmp_path / folder / "x.jpg")
    (tmp_path / "b" / "x.dng").touch()
    rows = plan(tmp_path, [picture_facts(tmp_path / folder / "x.jpg") for folder in ("a", "b")])
    assert rows["x.jpg"].kept == tmp_path / "b" / "x.jpg"


def test_a_raw_file_is_no_copy_of_its_picture(tmp_path: Path) -> None:
    """Decoders see its preview."""
    draw(32).save(tmp_path / "x.dng", "TIFF")
    draw(64).save(tmp_path / "x.jpg")
    draw(96).save(tmp_path / "y.jpg")
    for name in ("y.dng", "z.dng"):
        (tmp_path / name).write_bytes((tmp_path / "x.dng").read_bytes())
    rows = plan(tmp_path)
    assert (rows["x.dng"].action, rows["x.dng"].reason) == ("leave", "goes with x.jpg")
    assert rows["z.dng"].reason == "a RAW file, of which only the same bytes are a copy"
    for name in ("x.jpg", "y.jpg", "y.dng"):
        (tmp_path / name).unlink()
    assert plan(tmp_path)["z.dng"].action == "remove"


def plan_two(folder: Path, settings: KeepSettings | None = None, match: Match | None = None, **changes: Any) -> PlanRow:
    """The row of the smaller one of two copies, of whose facts some are changed; those of the larger one after "kept_"."""
    large, small = save(folder, large=96, small=64)
    kept = {name.removeprefix("kept_"): value for name, value in changes.items() if name.startswith("kept_")}
    own = {name: value for name, value in changes.items() if not name.startswith("kept_")}
    members = [replace(large, **kept), replace(small, **own)]
    knowledge = know_all_alike(members)
    if match is not None:
        knowledge = know_alike(knowledge.digests, knowledge.facts, [match])
    rows = plan_group(1, [facts.path for facts in members], knowledge, settings or KeepSettings())
    return next(row for row in rows if row.file == small.path)


@pytest.mark.parametrize(
    ("changes", "action", "reason"),
    [
        ({}, "remove", "the pixels agree"),
        ({"archived": True}, "leave", "inside an archive"),
        ({"linked": True}, "leave", "a link"),
        ({"linked": True, "kept_linked": True}, "leave", "a link"),
        ({"kept_archived": True, "archived": True}, "leave", "inside an archive"),
        ({"width": 0}, "leave", "cannot be read any more"),
    ],
)
def test_what_keeps_a_copy_from_going_is_said(tmp_path: Path, changes: dict[str, Any], action: str, reason: str) -> None:
    row = plan_two(tmp_path, **changes)
    assert (row.action, row.reason) == (action, reason)


def test_protected_files_and_references_stay(tmp_path: Path) -> None:
    for settings in (KeepSettings(is_protected=lambda path: True), KeepSettings(is_reference=lambda path: True)):
        assert plan_two(tmp_path, settings).action == "keep"


def test_a_copy_of_a_file_that_it_does_not_match_stays(tmp_path: Path) -> None:
    """It may be in the group for a third one."""
    other = Match(tmp_path / "large.png", tmp_path / "third.png", -0.1, None, judgement=CERTAIN)
    row = plan_two(tmp_path, match=other)
    assert (row.action, row.reason) == ("leave", "does not match the kept file by itself")


@pytest.mark.parametrize("whole", [True, False])
def test_a_damaged_file_is_not_kept_for_being_edited_least(tmp_path: Path, whole: bool) -> None:
    draw(96).save(tmp_path / "large.png")
    draw(80).save(tmp_path / "small.jpg", quality=95)
    content = (tmp_path / "small.jpg").read_bytes()
    (tmp_path / "small.jpg").write_bytes(content if whole else content[: len(content) // 2] + b"\xff\xd9")
    members = [picture_facts(tmp_path / name) for name in ("large.png", "small.jpg")]
    knowledge = know_all_alike(members)
    knowledge.comparer.find_made = lambda *files: (0, "has something added around it")  # type: ignore[method-assign]
    rows = plan_group(1, [facts.path for facts in members], knowledge, KeepSettings())
    assert rows[0].file.name == ("small.jpg" if whole else "large.png")


@pytest.mark.parametrize(("decision", "action"), [(None, "remove"), (True, "remove"), (False, "leave")])
def test_what_was_called_no_copy_stays(tmp_path: Path, decision: bool | None, action: str) -> None:
    members = save(tmp_path, large=96, small=64)
    knowledge = know_all_alike(members)
    knowledge.decide = lambda one, other: decision
    rows = plan_group(1, [facts.path for facts in members], knowledge, KeepSettings())
    assert rows[1].action == action
    assert knowledge.of(members[0].path, members[1].path).matches == (decision is not False)


def test_equal_bytes_go_first(tmp_path: Path) -> None:
    """Of two files of the same bytes both were to be looked at, next to a third one of which they may be copies."""
    rows = plan(tmp_path, save(tmp_path, a=64, b=64, large=96), lambda *pair: LIKELY)
    assert [rows[f"{name}.png"].action for name in ("large", "a", "b")] == ["keep", "keep", "remove"]
    assert rows["b.png"].kept == tmp_path / "a.png"


def test_a_damaged_file_that_stays_beside_the_kept_one_goes_for_its_copy(tmp_path: Path) -> None:
    draw(96).save(tmp_path / "large.png")
    whole = encode(draw(80), "JPEG", quality=95)
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2] + b"\xff\xd9")
    draw(64).save(tmp_path / "small.jpg")
    rows = plan(tmp_path, judge=lambda *pair: LIKELY if "large" in {path.stem for path in pair} else CERTAIN)
    assert [rows[name].action for name in ("large.png", "cut.jpg", "small.jpg")] == ["keep", "remove", "keep"]


@pytest.mark.parametrize(
    ("kind", "action"), [("same file", "remove"), ("certain", "remove"), ("likely", "review"), ("same scene", "review")]
)
def test_only_what_is_certain_goes(tmp_path: Path, kind: Kind, action: str) -> None:
    found = Match(tmp_path / "large.png", tmp_path / "small.png", -0.1, None, judgement=Judgement(kind, "so it is", 80))
    assert plan_two(tmp_path, match=found).action == action


@pytest.mark.parametrize("progressive", [False, True])
def test_a_damaged_file_does_not_win_over_an_intact_one(
    tmp_path: Path, progressive: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """A JPEG with a broken scan was kept, because it had more bytes."""
    whole = encode(draw(400), "JPEG", quality=95, progressive=progressive)
    half = len(whole) // 2
    (tmp_path / "broken.jpg").write_bytes(whole[:half] + bytes(300) + whole[half + 300 :] + bytes(5000))
    (tmp_path / "cut.jpg").write_bytes(whole[:half] + b"\xff\xd9" + bytes(len(whole)))
    (tmp_path / "whole.jpg").write_bytes(whole)
    rows = plan(tmp_path)
    kept = rows["whole.jpg"]
    assert (kept.action, kept.reason) == ("keep", "cut.jpg, which comes before it, is damaged")
    assert rows["broken.jpg"].action == rows["cut.jpg"].action == "remove"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_plan_that_a_spreadsheet_saved_is_read(tmp_path: Path, delimiter: str) -> None:
    """Such programs write a byte-order mark first, and in some countries semicolons: that was no plan."""
    rows = plan(tmp_path, save(tmp_path, **{"large, a": 96, "small; b": 64}))
    path = tmp_path / "plan.csv"
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)
    assert {row.file.name: row for row in read_plan(path)} == rows


def test_a_hard_link_to_the_kept_file_is_no_copy_to_remove(tmp_path: Path) -> None:
    """Every search planned it again, and --apply left it alone each time."""
    draw(96).save(tmp_path / "a.png")
    (tmp_path / "b.png").hardlink_to(tmp_path / "a.png")
    (tmp_path / "c.png").write_bytes((tmp_path / "a.png").read_bytes())
    rows = plan(tmp_path)
    assert [rows[f"{name}.png"].action for name in "abc"] == ["keep", "leave", "remove"] and "hard link" in rows["b.png"].reason
