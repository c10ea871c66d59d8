"""Copies differ from other shots of the same scene: their pixels agree block by block; time and camera decide the rest."""

import io
import itertools
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import ExifTags, Image

from image_copies.data.decode import decode_rgb
from image_copies.data.procedural import draw_picture
from image_copies.matching.pair import Pair
from image_copies.matching.verification.judgement import Judgement, judge
from image_copies.matching.verification.picture import Picture, _read_tags, tell_shots_apart
from image_copies.matching.verification.registration import Registration, register

Pixels = NDArray[np.uint8]
NOON = datetime(2024, 5, 4, 12, 0, 0)


def draw(seed: int, side: int = 400) -> Pixels:
    return draw_picture(np.random.default_rng(seed), side)


def compare(query: Pixels, reference: Pixels, described: bool = True) -> Judgement:
    first, second = Picture(np.ascontiguousarray(query)), Picture(np.ascontiguousarray(reference))
    return judge(described=described, registration=register(first, second))


def encode(pixels: Pixels, quality: int) -> Pixels:
    found = cv2.imdecode(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)
    return np.asarray(found, np.uint8)


def write(pixels: Pixels) -> Pixels:
    place = 10, pixels.shape[0] - 12
    return np.asarray(
        cv2.putText(pixels.copy(), "ALL OF US 1998", place, cv2.FONT_HERSHEY_SIMPLEX, 1, (255, 255, 0), 3), np.uint8
    )


def shake(pixels: Pixels, rng: np.random.Generator, x: NDArray[np.floating], y: NDArray[np.floating]) -> Pixels:
    """Look again: displaced by x and y [h, w], with the noise of another exposure."""
    rows, columns = np.indices(x.shape).astype(np.float32)
    places = (columns + x).astype(np.float32), (rows + y).astype(np.float32)
    seen = cv2.remap(pixels, *places, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    return encode(np.clip(seen + rng.normal(0, 2, seen.shape), 0, 255).astype(np.uint8), 92)


def frame(pixels: Pixels, margin: int = 24) -> Pixels:
    """What a camera sees of a larger scene."""
    return pixels[margin:-margin, margin:-margin]


@pytest.mark.parametrize(
    "edit",
    [
        lambda image: encode(image, 40),
        lambda image: cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA),
        lambda image: image[20:-30, 30:-10],
        np.rot90,
        lambda image: image[:, ::-1],
        lambda image: 255 - image,
        lambda image: image[..., ::-1],
        lambda image: (image * 0.6 + 40).astype(np.uint8),
        lambda image: cv2.GaussianBlur(image, (0, 0), 1.0),
        lambda image: cv2.copyMakeBorder(image, 30, 30, 30, 30, cv2.BORDER_CONSTANT, value=(200, 30, 30)),
        write,
    ],
    ids=["encode", "resize", "crop", "turn", "mirror", "invert", "channels", "pale", "blur", "border", "caption"],
)
def test_an_edited_copy_is_certain(edit: Callable[[Pixels], Pixels]) -> None:
    found = [compare(edit(image), image).kind for image in map(draw, range(5))]
    assert found.count("certain") >= 4, found


def move_camera(scene: Pixels, rng: np.random.Generator) -> tuple[Pixels, Pixels]:
    """Near and far are displaced against each other: three depths."""
    height, width = scene.shape[:2]
    x = np.zeros((height, width), np.float32)
    x[:, : width // 3], x[height // 2 :] = 5, 2
    return frame(scene), frame(shake(scene, rng, x, 0 * x))


def turn_camera(scene: Pixels, rng: np.random.Generator) -> tuple[Pixels, Pixels]:
    moved = np.full(scene.shape[:2], 6, np.float32)
    return frame(scene), frame(shake(scene, rng, moved, moved / 2))


def move_thing(scene: Pixels, rng: np.random.Generator) -> tuple[Pixels, Pixels]:
    """A burst: the background stays, a thing in front moves."""
    thing, side, still = draw_picture(rng, 480), min(scene.shape[:2]) // 3, np.zeros(scene.shape[:2])
    shots = [scene.copy(), scene.copy()]
    for place, seen in zip((40, 52), shots, strict=True):
        seen[place : place + side, place : place + side] = thing[:side, :side]
    return shake(shots[0], rng, still, still), shake(shots[1], rng, still, still)


@pytest.mark.parametrize(
    ("shoot", "kinds", "reason"),
    [
        (move_camera, {"likely", "same scene"}, ""),
        (turn_camera, {"likely"}, "each shows something that the other does not"),
        (move_thing, {"same scene"}, "something has moved"),
    ],
)
def test_another_shot_is_no_certain_copy(
    shoot: Callable[[Pixels, np.random.Generator], tuple[Pixels, Pixels]], kinds: set[str], reason: str
) -> None:
    for seed in range(5):
        found = compare(*shoot(draw(seed, 480), np.random.default_rng(seed)))
        assert found.kind in kinds and found.reason.startswith(reason), found


def test_bright_tones_that_were_cut_off_have_not_moved() -> None:
    original, (rows, columns) = draw(1).copy(), np.indices((320, 160))
    stripes = np.where(columns // 40 % 2, 165, 215) + 14 * np.sin((columns + rows) * np.pi / 4)
    original[40:360, 40:200] = stripes[..., None].astype(np.uint8)
    brighter = np.clip(original * 1.35, 0, 255).astype(np.uint8)  # the brighter stripes are lost, next to others like them
    for copy in (brighter, encode(brighter, 85)):
        assert compare(copy, original).is_certain and compare(original, copy).is_certain


def test_another_point_of_view_is_not_certain_even_of_a_flat_thing() -> None:
    scene = draw(1, 480)
    height, width = scene.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    seen = corners + np.array([[30, 20], [-5, 0], [0, 0], [10, -30]], np.float32)
    view = cv2.warpPerspective(scene, cv2.getPerspectiveTransform(corners, seen), (width, height))
    assert compare(np.asarray(view, np.uint8), scene).kind == "likely"


def lay(**measured: Any) -> Registration:
    """Return two pictures laid on each other that certainly are copies, but for what is measured."""
    plain = np.zeros((64, 64), np.float32)
    laid = Registration(plain, plain, np.eye(3))
    usual = {"inliers": 50, "matched": 50, "blocks": 60, "median": 0.95, "changed": 0, "moved": 0}
    vars(laid).update(usual | {"parallax": 0.1, "perspective": 0.05, "outside": 0} | measured)
    return laid


@pytest.mark.parametrize(
    ("measures", "kind"),
    [
        ({}, "certain"),
        ({"blocks": 12}, "certain"),
        ({"blocks": 11}, "likely"),
        ({"median": 0.851}, "certain"),
        ({"median": 0.849}, "likely"),
        ({"median": 0.501}, "likely"),
        ({"median": 0.499}, "same scene"),
        ({"changed": 0.25}, "certain"),
        ({"changed": 0.26}, "likely"),
        ({"changed": 2 / 60, "moved": 0.25}, "certain"),
        ({"changed": 2 / 60, "moved": 0.26}, "same scene"),
        ({"changed": 1 / 60, "moved": 1}, "certain"),
        ({"parallax": 0.2}, "certain"),
        ({"parallax": 0.21}, "likely"),
        ({"parallax": 0.6}, "likely"),
        ({"parallax": 0.61}, "same scene"),
        ({"parallax": 0.21, "median": 0.69}, "same scene"),
        ({"parallax": 0.21, "median": 0.71}, "likely"),
        ({"parallax": float("nan")}, "likely"),
        ({"outside": 0.0005}, "certain"),
        ({"outside": 0.0006}, "likely"),
        ({"perspective": 0.12}, "certain"),
        ({"perspective": 0.13}, "likely"),
    ],
)
def test_each_measure_has_its_limit(measures: dict[str, Any], kind: str) -> None:
    assert judge(registration=lay(**measures)).kind == kind


@pytest.mark.parametrize(
    ("inliers", "matched", "median", "kind", "confirmed"),
    [
        (10, 10, 0.69, "likely", True),
        (9, 9, 0.69, "unrelated", False),
        (9, 10, 0.69, "likely", True),
        (0, 0, 0.7, "likely", True),
        (0, 0, 0.9, "certain", True),
    ],
)
def test_pixels_count_where_features_or_they_themselves_say_that_the_map_holds(
    inliers: int, matched: int, median: float, kind: str, confirmed: bool
) -> None:
    found = judge(registration=lay(inliers=inliers, matched=matched, median=median))
    assert (found.kind, found.confirmed) == (kind, confirmed)


def test_certainty_rises_with_the_agreement() -> None:
    medians = (0.3, 0.49, 0.6, 0.84, 0.86, 0.93, 1.0)
    found = [judge(registration=lay(median=median)) for median in medians]
    grades = [one.certainty for one in found]
    assert grades == sorted(set(grades)) and max(grades[:2]) <= 39 and 60 <= min(grades[2:4]) <= max(grades[2:4]) <= 89
    assert (found[4].certainty, found[-1].certainty) == (91, 99)


def test_unrelated_pictures_are_never_certain() -> None:
    pictures = [Picture(draw(seed)) for seed in range(8)]
    found = [judge(registration=register(*pair)).kind for pair in itertools.combinations(pictures, 2)]
    assert found == ["unrelated"] * 28


def test_features_confirm_a_pair_that_is_laid_on_each_other_as_whole_frames() -> None:
    """Of two bad maps that of the whole frames may be the better one; the features that agreed on the other were forgotten."""
    scene = draw(3)
    rows, columns = np.indices(scene.shape[:2]).astype(np.float32)
    wavy = shake(scene, np.random.default_rng(0), 14 * np.sin(rows / 40), 14 * np.sin(columns / 40))
    found = register(Picture(wavy), Picture(scene))
    assert found is not None and found.matched >= 10
    framed = judge(described=True, registration=replace(found, inliers=0))
    assert framed.kind == "likely" and framed.confirmed
    assert not judge(described=True, registration=replace(found, inliers=0, matched=0)).confirmed


def test_what_the_descriptor_alone_says_is_not_confirmed() -> None:
    found = compare(draw(0), draw(1))
    assert found.kind == "likely" and not found.confirmed and found.reason.startswith("not confirmed")
    assert not found.is_copy and not found.is_certain and compare(draw(0), draw(1), described=False).kind == "unrelated"
    edited = compare(draw(1)[:, 60:], draw(1)[:, :-60])  # each shows something that the other does not
    assert edited.kind == "likely" and edited.confirmed and edited.is_copy and not edited.is_certain
    assert compare(draw(1), draw(1)).confirmed


@pytest.mark.parametrize("shape", [(1, 1), (1, 3000), (8, 8), (3000, 9), (31, 33), (64, 64)])
def test_tiny_and_long_pictures_are_judged_without_error(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    for other in (image, draw(0), np.full((200, 300, 3), 128, np.uint8)):
        for pair in ((image, other), (other, image)):
            assert compare(*pair).kind in ("certain", "likely")


def test_blank_pictures_are_never_certain() -> None:
    for grey in (0, 128, 255):
        blank = np.full((200, 300, 3), grey, np.uint8)
        assert compare(blank, blank).kind == compare(blank, draw(0)).kind == "likely"


def make_shot(taken: datetime | None = None, fraction: str = "", camera: str = "", side: int = 400) -> Picture:
    """Return a picture, made by these make and model, or by none."""
    target, exif = io.BytesIO(), Image.Exif()
    exif[ExifTags.Base.DateTime] = "2025:01:01 00:00:00"
    if camera:
        exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = camera.split()
    inner = exif.get_ifd(ExifTags.IFD.Exif)
    if taken is not None:
        inner[ExifTags.Base.DateTimeOriginal] = f"{taken:%Y:%m:%d %H:%M:%S}"
    inner[ExifTags.Base.SubsecTimeOriginal] = fraction
    Image.fromarray(draw(0)).resize((side, side)).save(target, "JPEG", exif=exif)
    return Picture(target.getvalue())


def test_two_exposures_are_never_certain_however_alike_they_are() -> None:
    first, second = make_shot(NOON, "", "Acme X1"), make_shot(NOON.replace(second=1), "", "Acme X1")
    smaller = make_shot(NOON.replace(second=1), "", "Acme X1", 300)
    assert Pair(second, smaller).judge()[0].kind == "certain"
    found, _ = Pair(first, smaller).judge()
    assert (found.kind, found.reason) == ("same scene", "taken 0:00:01 apart with one camera")


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ((), (NOON, "", "Acme X1"), False),
        ((NOON,), (NOON.replace(second=9),), False),  # no camera: who knows whose clock
        ((NOON, "12", "Acme X1"), (NOON, "34", "Acme X1"), True),
        ((NOON, "12", "Acme X1"), (NOON, "120", "Acme X1"), False),
        ((NOON, "", "Acme X1"), (NOON.replace(hour=14), "", "Acme X1"), False),  # another time zone
        ((NOON, "", "Acme X1"), (NOON, "", "Acme X2"), True),
        ((NOON, "", "Acme X1"), (NOON.replace(day=5, second=3), "", "Acme X1"), True),
    ],
)
def test_shots_are_told_apart_by_time_and_camera(first: tuple[Any, ...], second: tuple[Any, ...], apart: bool) -> None:
    one, other = make_shot(*first), make_shot(*second)
    assert bool(tell_shots_apart(one, other)) == bool(tell_shots_apart(other, one)) == apart


def test_time_and_camera_are_read_from_the_file() -> None:
    whole = make_shot(NOON, "07", "Acme\0 X1")
    assert [(one.taken, one.fraction, one.camera) for one in (whole, Picture(draw(0)))] == [
        (NOON, "07", "Acme X1"),
        (None, "", ""),
    ]
    assert _read_tags(b"no picture") == _read_tags(whole.content[:30]) == {}


def test_lookalikes_are_never_certain(copysets: Path) -> None:
    """Photographs of the same places from other points of view; every eighth pair of neighbours in their order."""
    archive = copysets / "lookalikes.zip"
    if not archive.is_file():
        pytest.skip(f"{archive} is missing")
    with zipfile.ZipFile(archive) as members:
        names = sorted(name for name in members.namelist() if name.endswith(".jpg"))
        pairs = list(itertools.pairwise(names))[::8]
        for pair in pairs:
            one, other = (Picture(decode_rgb(members.read(name), short_side=480)) for name in pair)
            found = judge(described=True, registration=register(one, other))
            assert found.kind not in ("certain", "same file"), pair
    assert len(pairs) == 9
