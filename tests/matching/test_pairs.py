"""Files are verified and judged at sizes that differ, as JPEGs are decoded reduced."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from image_copies.data.procedural import draw_picture
from image_copies.matching.matches import Match
from image_copies.matching.pairs import PairJudge
from image_copies.matching.verification.features import CHANGES
from image_copies.matching.verification.judgement import Judgement


def judge(folder: Path, one: Image.Image, other: Image.Image, quality: int = 0, **known: Any) -> Judgement:
    """Judge two files: PNG, the second one JPEG where a quality is given."""
    files = folder / "one.png", folder / ("other.jpg" if quality else "other.png")
    one.save(files[0])
    other.save(files[1], quality=quality)
    return PairJudge().judge(Match(*files, **known))


@pytest.mark.parametrize("side", [480, 600, 720, 800])
def test_a_cropped_jpeg_of_any_size_is_certainly_a_copy(side: int, tmp_path: Path) -> None:
    """Features were found in a JPEG decoded at half its size, and taken for those of the picture at 480 pixels."""
    whole = draw_picture(np.random.default_rng(3), side)
    height, width = whole.shape[:2]
    part = whole[height // 8 : height * 7 // 8, width // 10 : width * 8 // 10]
    files = tmp_path / "whole.jpg", tmp_path / "part.jpg"
    for file, pixels in zip(files, (whole, part), strict=True):
        cv2.imwrite(str(file), pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
    evidence = PairJudge().verify_all([Match(*files)], [CHANGES])[0].evidence
    assert evidence is not None and evidence.homography is not None
    assert PairJudge().judge(Match(*files, evidence=evidence)).kind == "certain"
    corners = np.array([[0.1, 0.125, 1], [0.8, 0.875, 1]]) @ evidence.homography.T
    np.testing.assert_allclose(corners[:, :2] / corners[:, 2:], [[0, 0], [1, 1]], atol=0.02)


@pytest.mark.parametrize(
    ("blur", "false_alarms", "confirmed"), [(20, 1e-7, True), (20, 1e-5, False), (20, None, False), (0, 1e-7, False)]
)
def test_what_nothing_can_confirm_must_be_far_beyond_the_threshold(
    blur: float, false_alarms: float | None, confirmed: bool, tmp_path: Path
) -> None:
    """`compare` called every other reference of a set a copy of the one nearest to it, by its score alone."""
    one, other = (Image.fromarray(draw_picture(np.random.default_rng(seed), 300)) for seed in range(2))
    softly = ImageFilter.GaussianBlur(blur)
    found = judge(tmp_path, one.filter(softly), other.filter(softly), expected_false_alarms=false_alarms)
    assert found.kind == "likely" and found.confirmed == confirmed, found


def test_features_that_were_verified_confirm_a_pair(tmp_path: Path) -> None:
    pixels = draw_picture(np.random.default_rng(3), 400)
    files = tmp_path / "one.png", tmp_path / "other.png", tmp_path / "blank.png"
    for file, image in zip(files, (pixels, pixels[40:], np.full_like(pixels, 128)), strict=True):
        cv2.imwrite(str(file), image)
    evidence = PairJudge().verify_all([Match(*files[:2])], [CHANGES])[0].evidence
    assert PairJudge().judge(Match(files[0], files[2], evidence=evidence)).confirmed
    assert not PairJudge().judge(Match(files[0], files[2])).confirmed


def take(scene: NDArray[np.uint8], rng: np.random.Generator) -> bytes:
    """A photograph of a scene: with noise, as JPEG."""
    noisy = np.clip(scene + rng.normal(0, 2, scene.shape), 0, 255).astype(np.uint8)
    return cv2.imencode(".jpg", noisy, [cv2.IMWRITE_JPEG_QUALITY, 92])[1].tobytes()


def put(scene: NDArray[np.uint8], thing: NDArray[np.uint8], left: int) -> NDArray[np.uint8]:
    """A scene with an oval part of another picture in front."""
    mask = cv2.ellipse(np.zeros(scene.shape[:2], np.uint8), (left, 150), (20, 30), 10, 0, 360, 255, -1)[..., None] > 0
    return np.where(mask, np.roll(thing, left, axis=1), scene)


def write(scene: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(cv2.putText(scene.copy(), "ALL OF US", (40, 200), cv2.FONT_HERSHEY_SIMPLEX, 1, (255, 255, 0), 3), np.uint8)


def stain(scene: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A scene with a spot that is a little brighter."""
    mask = cv2.circle(np.zeros(scene.shape, np.uint8), (150, 150), 9, (1, 1, 1), -1)
    return np.asarray(cv2.add(scene, 8 * mask), np.uint8)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda scene, thing: (put(scene, thing, 150), scene), {"likely", "same scene"}),
        (lambda scene, thing: (put(scene, thing, 150), put(scene, thing, 170)), {"likely", "same scene"}),
        (lambda scene, thing: (put(scene, thing, 150), put(scene, 255 - thing, 150)), {"likely", "same scene"}),
        (lambda scene, thing: (stain(scene), scene), {"likely"}),
        (lambda scene, thing: (write(scene), scene), {"certain"}),
        (lambda scene, thing: (scene, scene), {"certain"}),
    ],
    ids=["removed", "moved", "replaced", "spot", "caption", "nothing"],
)
def test_what_was_drawn_over_a_copy_leaves_it_certain_and_another_thing_does_not(
    change: Callable[..., Any], kinds: set[str], tmp_path: Path
) -> None:
    files = tmp_path / "one.jpg", tmp_path / "other.jpg"
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scene = np.asarray(cv2.GaussianBlur(draw_picture(rng, 400), (0, 0), 0.7), np.uint8)
        coarse = cv2.GaussianBlur(rng.normal(0, 1, scene.shape).astype(np.float32), (0, 0), 4)
        thing = np.clip(128 + 50 * coarse / coarse.std(), 0, 255).astype(np.uint8)
        for file, shot in zip(files, change(scene, thing), strict=True):
            file.write_bytes(take(shot, rng))
        found = PairJudge().judge(Match(*files))
        assert found.kind in kinds, (seed, found)


def draw_light(colour: str, ground: str = "white", radius: int = 10, side: int = 480) -> Image.Image:
    """A status light, as of scales and servers."""
    image = Image.new("RGB", (side, side * 9 // 16), ground)
    ImageDraw.Draw(image).circle((side / 2, side * 9 / 32), radius, colour)
    return image


def draw_room(lamp: str, side: int = 480) -> Image.Image:
    image = Image.fromarray(draw_picture(np.random.default_rng(3), side))
    ImageDraw.Draw(image).circle((image.width / 2, image.height / 2), side / 30, lamp)
    return image


def draw_display(shown: str) -> Image.Image:
    """A large picture with small print."""
    image = Image.fromarray(draw_picture(np.random.default_rng(4), 960))
    ImageDraw.Draw(image).rectangle((400, 300, 470, 324), "wheat")
    ImageDraw.Draw(image).text((404, 300), shown, "black", ImageFont.load_default(18))
    return image


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (draw_light("firebrick"), draw_light("mediumblue"), "likely"),
        (draw_light("firebrick", radius=40), draw_light("mediumblue", radius=40), "likely"),
        (draw_light("firebrick", "black", 20), draw_light("seagreen", "dimgray", 20), "likely"),
        (draw_light("firebrick", "white", 10), draw_light("seagreen", "black", 10), "likely"),
        (draw_room("firebrick"), draw_room("seagreen"), "likely"),
        (draw_room("firebrick"), draw_room("firebrick").convert("L"), "certain"),
        (draw_room("firebrick"), Image.eval(draw_room("firebrick"), lambda value: 255 - value), "certain"),
        (draw_room("firebrick"), Image.eval(draw_room("firebrick"), lambda value: round(0.8 * value + 20)), "certain"),
        (draw_room("firebrick", 900), draw_room("firebrick", 900).resize((700, 394)), "certain"),
        (draw_display("14:05"), draw_display("14:35"), "likely"),
        (draw_display("14:05"), draw_display("14:05").resize((700, 700)), "certain"),
    ],
)
@pytest.mark.parametrize("quality", [75, 92])
def test_a_part_of_another_colour_or_number_is_no_certain_copy(
    one: Image.Image, other: Image.Image, kind: str, quality: int, tmp_path: Path
) -> None:
    """A status light was certain, since twelve blocks along its edge agreed."""
    found = judge(tmp_path, one, other, quality)
    assert found.kind == kind, found


def test_a_strip_and_its_half_are_certainly_copies(tmp_path: Path) -> None:
    """Of a long screenshot 24 pixels of the shorter side were left, which say nothing."""
    rng = np.random.default_rng(2)
    strip = Image.new("RGB", (240, 4800))
    for top in range(0, 4800, 400):
        strip.paste(Image.fromarray(draw_picture(rng, 320)).resize((240, 400)).filter(ImageFilter.GaussianBlur(1.5)), (0, top))
    strip.save(tmp_path / "whole.jpg", quality=90)
    strip.reduce(2).save(tmp_path / "half.jpg", quality=85)
    assert PairJudge().judge(Match(tmp_path / "whole.jpg", tmp_path / "half.jpg")).is_certain


@pytest.mark.parametrize("quality", [50, 60])
def test_a_coarse_copy_of_noise_is_certain_because_compression_gives_it(quality: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    drawn = draw_picture(rng, 480)
    noisy = Image.fromarray(np.clip(drawn + rng.normal(0, 6, drawn.shape), 0, 255).astype(np.uint8))
    assert judge(tmp_path, noisy, noisy, quality).kind == "certain"


def test_tables_with_other_numbers_are_not_captioned_copies(tmp_path: Path) -> None:
    """Letters differ on both sides; below a caption one side shows something else."""
    for seed in range(3):
        rng, pages = np.random.default_rng(seed), list[Image.Image]()
        for _ in range(2):
            page = Image.new("RGB", (520, 420), "white")
            pen = ImageDraw.Draw(page)
            for row, column in itertools.product(range(12), range(5)):
                left, top = 10 + 100 * column, 10 + 33 * row
                pen.rectangle((left, top, left + 100, top + 33), "white", "black")
                pen.text((left + 20, top + 8), f"{rng.integers(100, 999)}", "black", ImageFont.load_default(18))
            pages.append(page)
        found = judge(tmp_path, pages[0], pages[1])
        assert not found.is_certain, (seed, found)
