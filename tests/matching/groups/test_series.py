"""Series: shots of one scene in a row, apart from groups of copies."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageEnhance, ImageFilter

from image_copies.matching.commands.interface import Copies, find_copies
from image_copies.matching.files.facts import Facts
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.series import is_of_series, list_joining, list_series, number_series
from image_copies.matching.matches import Match
from image_copies.matching.verification.judgement import Judgement, Kind
from tests.album_kinds.pictures import add_noise, caption, frame, scale, scene

NOON = datetime(2024, 5, 4, 12)


def fact(name: str, taken: str = "", side: int = 400, sharpness: float = 1.0) -> Facts:
    return Facts(Path("/album", name), side, 300, 1, 1, taken, "JPEG", sharpness, False, False, False)


def pair(one: Facts, other: Facts, kind: Kind = "likely", certainty: int = 70, alarms: float | None = None) -> Match:
    return Match(one.path, other.path, -0.1, alarms, judgement=Judgement(kind, "seen", certainty))


def is_series(one: Facts, other: Facts, kind: Kind = "likely", certainty: int = 70, alarms: float | None = None) -> bool:
    return is_of_series(pair(one, other, kind, certainty, alarms), {each.path: each for each in (one, other)})


@pytest.mark.parametrize(
    ("seconds", "scene_too", "likely_too"), [(0, True, False), (2, True, True), (590, True, True), (4000, False, False)]
)
def test_dates_decide_where_both_have_one(seconds: int, scene_too: bool, likely_too: bool) -> None:
    one, other = fact("IMG_1.jpg", str(NOON)), fact("IMG_2.jpg", str(NOON + timedelta(seconds=seconds)))
    assert (is_series(one, other, "same scene", 10), is_series(one, other)) == (scene_too, likely_too)


@pytest.mark.parametrize(
    ("name", "other", "side", "expected"),
    [
        ("IMG_0009.jpg", "IMG_0010.jpg", 400, True),
        ("IMG_0009.jpg", "IMG_0030.jpg", 400, False),
        ("IMG_0009.jpg", "DSC_0010.jpg", 400, False),
        ("IMG_0009.jpg", "2/IMG_0010.jpg", 400, False),
        ("1.jpg", "2.jpg", 300, False),  # cropped
        ("beach.jpg", "beach crop.jpg", 400, False),
    ],
)
def test_likely_copies_are_shots_in_a_row_where_their_names_say_so(name: str, other: str, side: int, expected: bool) -> None:
    assert is_series(fact(name), fact(other, side=side)) == expected
    assert is_series(fact(name), fact(other, side=side), "same scene", 10), "what shows one scene needs no names"


def test_what_is_certain_settled_or_not_confirmed_is_no_series() -> None:
    one, other = fact("IMG_1.jpg"), fact("IMG_2.jpg")
    assert not is_series(one, other, "certain", 95) and not is_series(one, other, "likely", 50)
    assert not is_series(one, other, "same scene", 10, alarms=0.0), "the user called them copies"
    assert not is_series(replace(one, frames=3), other, "same scene", 30), "a report with the same cover"


def test_series_are_numbered_and_copies_count_as_what_stays() -> None:
    a, b, c, again = fact("a.jpg", sharpness=3), fact("b.jpg", sharpness=9), fact("c.jpg"), fact("a small.jpg", sharpness=99)
    d, e = fact("d.jpg"), fact("e.jpg", sharpness=2)
    pairs = [
        pair(d, e, "same scene", 10),
        pair(again, b, "same scene", 10),  # a.jpg, of which it is a copy, is no pair itself
        pair(b, c, "same scene", 10),
        pair(a, again, "certain", 98),
    ]
    rows = [
        PlanRow(1, "keep", a.path, a.path, "", None, a, False, ""),
        PlanRow(1, "remove", again.path, a.path, "", -0.1, again, False, ""),
    ]
    found = number_series(pairs, {each.path: each for each in (b, c, d, e, again)}, rows)
    assert [(match.series, match.sharpest) for match in found] == [(2, e.path), (1, b.path), (1, b.path), (None, None)]
    assert list_series(found, rows) == [[b.path, a.path, c.path], [e.path, d.path]]


def test_copies_of_one_shot_join_no_group_with_another_shot() -> None:
    one, other, copy, third = (fact(name) for name in ("IMG_1.jpg", "IMG_2.jpg", "sent.jpg", "cropped.jpg"))
    pairs = [pair(one, other, "same scene", 10), pair(one, copy, "certain", 98), pair(copy, other), pair(third, copy)]
    known = {each.path: each for each in (one, other, copy, third)}
    assert list_joining(pairs, known) == [pairs[1], pairs[3]]
    assert list_joining(pairs[1:], known) == pairs[1:], "without the first nothing says that they are two shots"


def save(picture: Image.Image, path: Path, taken: datetime | None = None) -> Path:
    exif = Image.Exif()
    if taken is not None:
        exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Maker", "Camera 1"
        exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = taken.strftime("%Y:%m:%d %H:%M:%S")
    picture.save(path, quality=92, exif=exif)
    return path


def shots_in(found: Copies) -> list[list[str]]:
    series = list_series(found.near, [row for group in found for row in group.rows])
    return [[path.name for path in files] for files in series]


def test_an_album_with_bursts_and_copies_keeps_both_apart(tmp_path: Path) -> None:
    """A photograph, edited copies of it, and shots of a burst: displaced, of another exposure, seconds apart."""
    rng = np.random.default_rng(7)
    large = scene(rng, 640)
    photo = add_noise(frame(large), rng, 4)
    save(photo, tmp_path / "IMG_0100.jpg", NOON)
    for number, (step, light, blur) in enumerate([(8, 1.15, 0.8), (14, 0.85, 1.2), (4, 1.1, 2.0)], 101):
        shot = ImageEnhance.Brightness(frame(large, 24 + step, 24 + step // 2)).enhance(light)
        shown = add_noise(shot.filter(ImageFilter.GaussianBlur(blur)), rng)
        save(shown, tmp_path / f"IMG_{number:04}.jpg", NOON + timedelta(seconds=number - 100))
    save(scale(photo, 0.6), tmp_path / "small.jpg", NOON)
    save(scale(photo, 0.8), tmp_path / "sent.jpg")
    save(caption(photo, "LAST SUMMER"), tmp_path / "captioned.jpg")
    save(photo.crop((30, 20, photo.width - 40, photo.height - 30)), tmp_path / "cropped.jpg")
    found = find_copies(tmp_path)
    (group,) = found
    assert {path.name for path in group} == {"IMG_0100.jpg", "small.jpg", "sent.jpg", "captioned.jpg", "cropped.jpg"}
    assert shots_in(found) == [[f"IMG_{number:04}.jpg" for number in range(100, 104)]], "the sharpest is the first"
    assert all(match.series == 1 for match in found.near), "also those of the copies with the other shots"
    table = found.to_pandas(near=True)
    shots = table[table["series"].notna()]
    assert set(shots["sharpest"]) == {tmp_path / "IMG_0100.jpg"} and set(shots["series"]) == {1}


@pytest.mark.slow
def test_look_alikes_are_series_and_no_group(copysets: Path) -> None:
    """68 photographs of five places, none a copy of another: each pair that anything confirms is of a series of its place."""
    lookalikes = copysets / "lookalikes.zip"
    if not lookalikes.exists():
        pytest.skip(f"{lookalikes} is missing")
    found = find_copies(lookalikes)
    confirmed = [match for match in found.near if match.judgement and match.judgement.confirmed]
    assert list(found) == [] and len(confirmed) > 150 and all(match.series for match in confirmed)
    places = [{path.name.split("_")[0] for path in files} for files in list_series(found.near, ())]
    assert sorted(map(sorted, places)) == [["berlin"], ["castle"], ["lund"], ["tree"], ["xfeat"]]
