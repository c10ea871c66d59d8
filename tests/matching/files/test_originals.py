"""The kept file of certain copies is the one that was edited least, not the one with the most pixels."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

from image_copies.matching.files import originals
from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.keeping import KeepRule, KeepSettings
from image_copies.matching.files.originals import EditComparer, find_advantage
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.group_plan import plan_group
from image_copies.matching.knowledge import Knowledge, list_pairs
from image_copies.matching.matches import Match
from image_copies.matching.pairs import PairJudge
from image_copies.matching.verification.detail import compare_detail
from image_copies.matching.verification.edits import Comparison
from tests import pictures
from tests.album_kinds.pictures import scene, turn_hue
from tests.pictures import compress

DATE = Image.Exif()
DATE.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2024:05:04 12:00:00"
LAKE = "all of us at the lake, in the summer of 1998"
BILINEAR, LANCZOS, NEAREST = Image.Resampling.BILINEAR, Image.Resampling.LANCZOS, Image.Resampling.NEAREST
Picture = Image.Image
Edit = Callable[[Picture], Picture]
Form = str  # a file's ending and quality, 101 without loss, and "+" where it says when it was taken: "png", "webp 101", "jpg 92+"
Saved = tuple[Edit, Form]  # what is made of a drawn picture, and how it is saved


@cache
def draw(seed: int = 3) -> Picture:
    return pictures.draw(seed)


def same(picture: Picture) -> Picture:
    return picture


def scale(x: float, y: float = 0, filter_: Image.Resampling = Image.Resampling.BICUBIC) -> Edit:
    return lambda picture: picture.resize((round(picture.width * x), round(picture.height * (y or x))), filter_)


def crop(left: int, top: int, right: int = 480, bottom: int = 360) -> Edit:
    return lambda picture: picture.crop((left, top, right, bottom))


def paint(paint_on: Callable[[ImageDraw.ImageDraw], object]) -> Edit:
    def edit(picture: Picture) -> Picture:
        shown = picture.copy()
        paint_on(ImageDraw.Draw(shown))
        return shown

    return edit


def fill_in(number: str) -> Edit:
    def write_number(drawn: ImageDraw.ImageDraw) -> None:
        drawn.rectangle((140, 140, 300, 180), "white")
        drawn.text((150, 150), f"Total: {number}.00", "black", ImageFont.load_default(14))

    return paint(write_number)


def blur_part(picture: Picture) -> Picture:
    shown, box = picture.copy(), (200, 150, 230, 180)
    shown.paste(shown.crop(box).filter(ImageFilter.GaussianBlur(4)), box)
    return shown


def sharpen(picture: Picture) -> Picture:
    return picture.filter(ImageFilter.UnsharpMask(2, 150, 0))


def add_noise(picture: Picture) -> Picture:
    noise = np.random.default_rng(5).normal(0, 5, (picture.height, picture.width, 3))
    return Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))


def pad(mode: Any, x: int = 60, y: int = 0) -> Edit:
    return lambda picture: Image.fromarray(np.pad(np.asarray(picture), ((y, y), (x, x), (0, 0)), mode=mode))


def put_on_page(picture: Picture) -> Picture:
    """The lower edge of the picture is as white as the bar below it."""
    page = ImageOps.expand(picture, (0, 0, 0, 60), "white")
    ImageDraw.Draw(page).text((40, picture.height + 15), "all of us at the lake", "black", ImageFont.load_default(30))
    return page


def write_around(picture: Picture) -> Picture:
    page = ImageOps.expand(picture, 120, "white")
    for top in (10, 50, 500, 540):
        ImageDraw.Draw(page).text((20, top), LAKE, "black", ImageFont.load_default(30))
    return page


def fill_page(number: str) -> Edit:
    """A form with this number, whatever picture is given."""

    def make(_: Picture) -> Picture:
        page = Image.new("RGB", (1000, 1400), "white")
        for line in range(30):
            ImageDraw.Draw(page).text((60, 40 + 44 * line), LAKE[:35], "black", ImageFont.load_default(22))
        ImageDraw.Draw(page).text((700, 1360), number, (20, 20, 90), ImageFont.load_default(18))
        return page

    return make


def straighten(picture: Picture) -> Picture:
    turned = picture.rotate(3, Image.Resampling.BICUBIC)
    return turned.crop((30, 30, picture.width - 30, picture.height - 30))


def turn_and_fill(picture: Picture) -> Picture:
    """Show all of a picture that was turned, and something in the corners."""
    turned = pad("reflect", 90, 90)(picture).rotate(4, Image.Resampling.BICUBIC)
    width, height = picture.rotate(4, expand=True).size
    left, top = (turned.width - width) // 2, (turned.height - height) // 2
    return turned.crop((left, top, left + width, top + height))


def draw_stripes(picture: Picture) -> Picture:
    shown = picture.resize((800, 601))
    for top in range(300, 601, 60):
        ImageDraw.Draw(shown).rectangle((0, top, 800, top + 14), (255, 40, 40))
    return shown


def draw_chart(_: Picture) -> Picture:
    picture = Image.new("RGB", (640, 480), "white")
    drawn = ImageDraw.Draw(picture)
    for bar in range(8):
        drawn.rectangle((30 + bar * 75, 440 - bar * 37 % 300, 75 + bar * 75, 440), (66, 114, 196))
        drawn.text((30 + bar * 75, 445), f"no. {bar}", 0, ImageFont.load_default(18))
        drawn.ellipse((40 + bar * 70, 20 + bar * 9, 70 + bar * 70, 60 + bar * 9), (200, 40 * bar % 250, 30), 0)
    return picture


def draw_night(_: Picture) -> Picture:
    """Dark, with lights of a few pixels."""
    drawn, rng = scene(np.random.default_rng(1)).resize((720, 960), LANCZOS), np.random.default_rng(3)
    shown = add_noise(ImageEnhance.Brightness(drawn).enhance(0.2))
    for x, y in zip(rng.integers(10, 710, 25).tolist(), rng.integers(10, 950, 25).tolist(), strict=True):
        ImageDraw.Draw(shown).rectangle((x, y, x + 2, y + 2), (255, 230, 170))
    return shown


def whiten_edge(picture: Picture) -> Picture:
    return paint(lambda drawn: drawn.rectangle((0, 330, 480, 360), "white"))(picture)


def turn(degrees: float) -> Edit:
    return lambda picture: picture.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=(90, 90, 90))


def write(picture: Picture) -> Picture:
    shown = picture.copy()
    ImageDraw.Draw(shown).text(
        (40, 290), "ALL OF US 1998", "white", ImageFont.load_default(40), stroke_width=3, stroke_fill="black"
    )
    return shown


def frame(picture: Picture) -> Picture:
    return ImageOps.expand(picture, 24, "white")


def grey(picture: Picture) -> Picture:
    return ImageOps.grayscale(picture).convert("RGB")


def brighten(picture: Picture) -> Picture:
    return ImageEnhance.Brightness(picture).enhance(1.2)


def median(picture: Picture) -> Picture:
    return picture.filter(ImageFilter.MedianFilter(3))


def both(first: Edit, second: Edit) -> Edit:
    return lambda picture: second(first(picture))


cover = paint(lambda drawn: drawn.ellipse((180, 120, 260, 200), (255, 220, 0), (0, 0, 0), 2))
cover_with_square = paint(lambda drawn: drawn.rectangle((200, 150, 270, 210), (200, 200, 40)))
coarsen = both(scale(0.625), scale(1.6))


def save(folder: Path, name: str, picture: Picture, form: Form) -> Path:
    ending, _, said = form.partition(" ")
    quality = int(said.rstrip("+") or 0)
    options: dict[str, Any] = {"quality": min(quality, 100), "lossless": quality > 100} if quality else {}
    if ending == "avif" and quality >= 90:
        options["subsampling"] = "4:4:4"
    if ending == "jp2":
        options = {"quality_mode": "dB", "quality_layers": [quality / 2]}
    if ending == "heif":
        pytest.importorskip("pillow_heif").register_heif_opener()
    path = folder / f"{name}.{ending}"
    picture.save(path, exif=DATE if form.endswith("+") else Image.Exif(), **options)
    return path


def save_made(folder: Path, original: Saved, made: Saved) -> None:
    """Save an original, and what is made of its file."""
    path = save(folder, "original", original[0](draw()), original[1])
    with Image.open(path) as shown:
        save(folder, "made", made[0](shown.convert("RGB")), made[1])


def plan(folder: Path, rule: KeepRule = "largest", reference: str = "", preferred: tuple[str, ...] = ()) -> dict[str, PlanRow]:
    """The plan for pictures of a folder that are one group; `reference` is the stem of a file that was searched as one."""
    facts = {path: picture_facts(path) for path in sorted(folder.iterdir())}
    digests = {path: hashlib.sha256(path.read_bytes()).digest() for path in facts}
    judge = PairJudge()
    pairs = [Match(*pair, -0.1) for pair in combinations(facts, 2)]
    found = [replace(pair, judgement=judge.judge(pair)) for pair in pairs]
    settings = KeepSettings(rule, preferred, is_reference=lambda path: path.stem == reference)
    rows = plan_group(1, list(facts), Knowledge(digests, facts, list_pairs(found), judge=judge), settings)
    return {row.file.stem: row for row in rows}


GOES: list[tuple[Saved, Saved]] = [  # an original, and what is made of its file
    ((same, "jpg 92"), (grey, "jpg 70")),
    ((same, "jpg 92"), (scale(0.5, 0.65), "jpg 70")),
    *(((same, "jpg 93+"), (same, form)) for form in ("jpg 50", "jpg 90", "webp 60", "webp 80", "avif 60", "png")),
    *(((same, "jpg 93+"), (scale(0.6, 0.6, BILINEAR), form)) for form in ("jpg 50", "webp 80", "avif 60", "png")),
    # Camera JPEGs went for the HEIF of each and for lossless WebP, a PNG of one was kept for its bytes.
    *(((same, "jpg 85"), (same, form)) for form in ("png", "avif 60")),
    *(((same, "jpg 92"), (same, form)) for form in ("tiff", "webp 101", "webp 97", "avif 100", "heif 95")),
    ((draw_chart, "png"), (same, "jpg 90")),  # it was kept for the PNG of a screen
    ((same, "jpg 92"), (same, "jp2 80")),
    # Lights seemed to be other things, and what was reduced by little to be an original that was enlarged.
    ((draw_night, "jpg 93"), (scale(0.7, 0.7, LANCZOS), "jpg 86")),
    ((same, "jpg 92"), (scale(0.9, 0.9, LANCZOS), "jpg 87")),
    ((same, "jpg 92"), (scale(0.5, 0.5, NEAREST), "jpg 90")),
    # A quarter of 601 rows are 151: scaled to a square, they lay half a row lower than those of the smaller copy.
    ((draw_stripes, "jpg 92"), (scale(0.5, 300 / 601), "jpg 85")),
]


@pytest.mark.parametrize(("original", "made"), GOES)
def test_what_is_made_of_an_original_goes(tmp_path: Path, original: Saved, made: Saved) -> None:
    save_made(tmp_path, original, made)
    rows = plan(tmp_path)
    assert (rows["original"].action, rows["made"].action) == ("keep", "remove")


def test_what_was_exported_at_two_sizes_goes_at_the_smaller_one(tmp_path: Path) -> None:
    """None of the two is made of the other one's file."""
    picture = scale(4 / 3, 4 / 3, LANCZOS)(draw())
    save(tmp_path, "original", picture, "jpg 93")
    save(tmp_path, "small", scale(0.7, 0.7, LANCZOS)(picture), "jpg 88")
    row = plan(tmp_path)["small"]
    assert row.action == "remove", row


STAYS: list[tuple[Saved, Saved]] = [  # an original, and what is made of its file, for which it must not go
    *(((same, "jpg 92"), (scale(by), "jpg 95")) for by in (1.2, 2.0)),
    *(((same, "jpg 92"), (both(scale(by), sharpen), "jpg 95")) for by in (1.2, 1.5, 2.0)),
    *(((same, "jpg 92"), (both(both(scale(by), sharpen), add_noise), "jpg 95")) for by in (1.2, 2.0)),
    *(((whiten_edge, "jpg 92"), (extend, "jpg 92")) for extend in (put_on_page, pad("reflect"), pad("edge"))),
    ((same, "jpg 92+"), (same, "png")),
    ((same, "jpg 92+"), (scale(2), "png")),
    ((write_around, "jpg 92"), (crop(120, 120, 600, 480), "jpg 92")),
    ((same, "jpg 90"), (both(straighten, scale(2)), "jpg 90")),
    ((same, "jpg 92"), (turn_and_fill, "jpg 92")),
    ((same, "jpg 85"), (turn(90), "jpg 95")),
    # A coarser file, and what is made of it, which may say when it was taken.
    ((same, "jpg 80"), (sharpen, "jpg 96+")),
    ((same, "jpg 92"), (sharpen, "jpg 96")),
    ((same, "jpg 92"), (median, "jpg 96+")),
    ((same, "jpg 80"), (lambda picture: picture.filter(ImageFilter.GaussianBlur(0.9)), "jpg 96+")),
    ((same, "jpg 80"), (add_noise, "jpg 96")),
    ((same, "jpg 92"), (coarsen, "jpg 96+")),
    ((same, "jpg 80"), (coarsen, "jpg 96")),
    ((same, "jpg 92"), (both(crop(2, 2, 478, 358), scale(480 / 476, 360 / 356)), "jpg 96+")),
]


@pytest.mark.parametrize(("original", "made"), STAYS)
def test_an_original_does_not_go_for_what_is_made_of_it(tmp_path: Path, original: Saved, made: Saved) -> None:
    save_made(tmp_path, original, made)
    assert plan(tmp_path)["original"].action in ("keep", "review")


KEPT: list[tuple[Saved, Saved, str]] = [  # an original, which is kept, and what is made of its file, at which a person looks: why
    ((same, "jpg 92"), (cover, "jpg 97"), "has something laid over it"),
    ((same, "jpg 92"), (lambda picture: ImageOps.expand(picture, (0, 45), "black"), "jpg 97"), "has something added around it"),
    ((same, "jpg 85"), (scale(1.0, 4 / 3), "jpg 97"), "was stretched"),
    ((same, "jpg 92"), (grey, "png"), "has lost its colours"),
    ((same, "jpg 92"), (lambda picture: ImageEnhance.Color(picture).enhance(0.2), "png"), "has lost its colours"),
    ((same, "jpg 92"), (same, "jpg 97"), "follows from the other one by its pixels"),
    ((same, "jpg 90"), (straighten, "jpg 90"), ""),
    ((same, "png"), (same, "avif 90"), ""),
    ((same, "tiff"), (same, "avif 100"), ""),
    *(((same, form), (same, "jpg 92"), "") for form in ("heif 95", "avif 95", "webp 95")),
]


@pytest.mark.parametrize(("original", "made", "why"), KEPT)
def test_an_original_is_kept_and_what_is_made_of_it_looked_at(tmp_path: Path, original: Saved, made: Saved, why: str) -> None:
    save_made(tmp_path, original, made)
    rows = plan(tmp_path)
    assert (rows["original"].action, rows["made"].action) == ("keep", "review")
    assert rows["original"].reason.endswith(why) and "tones" not in rows["made"].original
    if why == "has lost its colours":
        rows = plan(tmp_path, reference="made")
        assert rows["original"].action == "review" and rows["original"].reason.endswith(f": the kept file {why}")


def versions(edit: Edit, *forms: tuple[float, Form], other: Edit = same) -> list[tuple[Saved, Saved]]:
    return [((both(other, scale(by)), form), (edit, "jpg 95")) for by, form in forms]


LOOKED_AT: list[tuple[Saved, Saved]] = [  # two pictures of which nobody knows which one is wanted
    ((scale(0.8), "jpg 85"), (cover_with_square, "jpg 92")),
    ((scale(0.8), "jpg 85"), (lambda picture: picture.filter(ImageFilter.GaussianBlur(1.5)), "png")),
    *versions(blur_part, (1.0, "jpg 85"), (0.8, "jpg 85")),
    *versions(fill_in("12"), (1.0, "jpg 85"), (0.8, "jpg 85"), (1.0, "jpg 12"), (0.5, "webp 60"), other=fill_in("73")),
    *versions(sharpen, (1.0, "jpg 12"), (0.5, "jpg 70"), (0.5, "webp 60")),
    *versions(add_noise, (1.0, "jpg 70"), (0.5, "jpg 12"), (1.0, "webp 60")),
    *versions(median, (1.0, "webp 60"), (0.5, "jpg 12"), (0.5, "jpg 70")),
    ((fill_page("20391"), "jpg 80"), (fill_page("20891"), "jpg 95")),
    ((write, "jpg 95"), (crop(60, 40), "jpg 90")),
    ((both(write, scale(0.8)), "jpg 80"), (same, "jpg 92")),
]


@pytest.mark.parametrize(("one", "other"), LOOKED_AT)
def test_of_two_versions_none_goes(tmp_path: Path, one: Saved, other: Saved) -> None:
    """A reduced original went for the large file that was sharpened, and a form for one with another digit, at a low quality."""
    for name, (edit, form) in (("one", one), ("other", other)):
        save(tmp_path, name, edit(draw()), form)
    assert sorted(row.action for row in plan(tmp_path).values()) == ["keep", "review"]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (write, "has something laid over it"),
        (scale(1.5), "was enlarged"),
        (both(frame, scale(1.4)), "has something added around it and was enlarged"),
    ],
)
def test_an_edited_copy_is_not_kept_for_its_size(tmp_path: Path, edit: Edit, reason: str) -> None:
    save_made(tmp_path, (same, "jpg 85"), (edit, "jpg 97"))
    save(tmp_path, "small", scale(0.75)(compress(draw(), 85)), "jpg 85")
    rows = plan(tmp_path)
    size = "{0.width} × {0.height}".format(Image.open(tmp_path / "made.jpg"))
    assert (rows["original"].action, rows["original"].reason) == ("keep", f"least edited: made.jpg, {size}, {reason}")
    assert rows["made"].action == "review" and rows["made"].kept == tmp_path / "original.jpg"
    assert rows["small"].action == "remove" and rows["small"].kept == tmp_path / "original.jpg"
    if edit is write:
        assert "least edited" not in str(
            [row.reason for row in plan(tmp_path, "oldest").values()]
        )  # as asked for, whatever it is


@pytest.mark.parametrize("name", ["again.png", "again.jpg"])
def test_an_original_does_not_go_for_a_worse_file_of_more_bytes(tmp_path: Path, name: str) -> None:
    """It shows the steps of its first compression, as PNG and as JPEG of a high quality."""
    draw().save(tmp_path / "original.jpg", quality=86)
    compress(compress(draw(), 86), 50).save(tmp_path / name, quality=99)
    assert plan(tmp_path)["original"].action in ("keep", "review")


def test_a_photograph_is_kept_instead_of_its_gif(tmp_path: Path) -> None:
    """The GIF has more bytes, and 256 colours."""
    save_made(tmp_path, (same, "jpg 85"), (same, "gif"))
    assert plan(tmp_path)["original"].action == "keep"


def test_other_shots_of_a_scene_are_kept_instead_of_their_own_copies(tmp_path: Path) -> None:
    """None goes through a chain, or for a file that goes itself."""
    for seed in (3, 4):
        draw(seed).save(tmp_path / f"shot {seed}.jpg", quality=92)
        for side in (0.7, 0.5):
            scale(side)(compress(draw(seed), 92)).save(tmp_path / f"copy {seed} {side}.jpg", quality=85)
    rows = plan(tmp_path)
    gone = {stem: row.kept.stem for stem, row in rows.items() if row.action == "remove"}
    assert gone == {f"copy {seed} {side}": f"shot {seed}" for seed in (3, 4) for side in (0.7, 0.5)}
    assert {stem for stem, row in rows.items() if row.action == "keep"} == {"shot 3", "shot 4"}
    assert next(iter(rows)) == "shot 3"  # the kept file of the group comes first


@pytest.mark.parametrize(
    ("edit", "form", "advantage"),
    [
        (crop(60, 40), "jpg 95", "it shows more than the kept file"),
        (scale(0.4), "jpg 95", "it has more pixels than the kept file"),
        (write, "jpg 95", "the kept file has something laid over it"),
        (same, "png", "the kept file holds the pixels of a compressed file"),
    ],
)
def test_an_original_does_not_go_whatever_the_kept_file_is_kept_for(
    tmp_path: Path, edit: Edit, form: Form, advantage: str
) -> None:
    save_made(tmp_path, (same, "jpg 95"), (edit, form))
    os.utime(next(tmp_path.glob("made.*")), (1, 1))
    for rows in (plan(tmp_path, reference="made"), plan(tmp_path, "oldest"), plan(tmp_path, preferred=("made.*",))):
        assert (rows["made"].action, rows["original"].action) == ("keep", "review")
        assert rows["original"].reason.endswith(f": {advantage}")


def test_what_has_something_that_the_kept_file_lacks_is_looked_at(tmp_path: Path) -> None:
    """A caption, a sticker, another name in the same form: these went."""
    save_made(tmp_path, (same, "jpg 92"), (both(write, scale(0.8)), "jpg 80"))
    rows = plan(tmp_path)
    assert rows["original"].action == "keep" and rows["made"].action == "review"
    assert rows["made"].reason.endswith(": it has something that the kept file lacks")


def test_a_blurred_copy_is_looked_at_for_one_reason_that_contradicts_nothing(tmp_path: Path) -> None:
    save_made(tmp_path, (same, "jpg 95"), (lambda picture: picture.filter(ImageFilter.GaussianBlur(2)), "jpg 85"))
    said = plan(tmp_path)["made"].reason.partition(" (")
    assert said[0] == "blurred, otherwise the same"
    assert said[2].partition("); ")[2] == "a person should look: they differ by more than compression"


def test_the_same_form_with_another_name_is_looked_at(tmp_path: Path) -> None:
    for name in ("Miller 120.00", "Schmidt 999.50"):
        filled = draw().copy()
        ImageDraw.Draw(filled).text((150, 150), name, "black", font=ImageFont.load_default(30))
        filled.save(tmp_path / f"{name[:6]}.png")
    rows = plan(tmp_path)
    assert {row.action for row in rows.values()} == {"keep", "review"}
    assert {row.judgement.kind for row in rows.values() if row.judgement} == {"likely"}


def test_a_camera_file_is_not_called_enlarged(tmp_path: Path) -> None:
    """It is soft at its own size, as those of telephones are, and says when it was taken."""
    save(tmp_path, "camera", scale(2)(draw()), "jpg 92+")
    save(tmp_path, "small", draw(), "jpg 92")
    rows = plan(tmp_path)
    assert (rows["camera"].action, rows["small"].action) == ("keep", "review")
    save(tmp_path, "camera", scale(2)(draw()), "jpg 92")
    assert plan(tmp_path)["small"].reason.endswith("camera.jpg, 960 × 720, was enlarged")


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    draw().save(tmp_path / "one.jpg", quality=92)
    return picture_facts(tmp_path / "one.jpg")


UNCLEAR = "both JPEG and JPEG have as many pixels, and neither says which was first"
DETAIL, BOTH, NEITHER = (99.0, 0.0), (True, True), (False, False)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"blurred": (True, False)}, "it is sharper than the kept file"),
        ({"blurred": (True, False), "new_detail": DETAIL}, ""),
        ({"density": (1.5, 1.0)}, "nothing says that the kept file was not enlarged"),
        ({"density": (1.5, 1.0), "new_detail": DETAIL}, ""),
        ({"cropped": (False, True)}, "it is a part of the kept file, which somebody chose"),
        ({"compressed": BOTH}, UNCLEAR),
        ({"compressed": BOTH, "step": (4.0, None)}, UNCLEAR),
        ({"compressed": BOTH, "step": (4.0, 4.0)}, ""),  # as by a program that keeps the tables
        ({"compressed": BOTH, "step": (4.0, 4.4)}, ""),
        ({"compressed": BOTH, "step": (4.0, 6.0)}, UNCLEAR),
        ({"step": (6.0, 4.0)}, "the kept file was compressed more"),
        ({"differing": 2.5}, ""),
        ({"differing": 2.5, "compressed": NEITHER}, "a part of the two differs"),
        ({"differing": 1.5, "compressed": NEITHER}, None),
        ({"covered": BOTH}, "one of the two has something laid over it"),
    ],
)
def test_what_a_file_has_before_the_kept_one_is_said(facts: Facts, seen: dict[str, Any], said: str | None) -> None:
    found = replace(Comparison(np.eye(3), compressed=(False, True)), **seen)
    why = find_advantage(found, facts, facts)
    assert why == said or (said is None and why != "a part of the two differs")


def test_what_is_seen_of_two_files_is_exchanged_with_them() -> None:
    found = Comparison(np.diag([2.0, 4.0, 1.0]), cropped=(True, False), step=(1.0, None), differing=0.5)
    back = found.exchange()
    assert (back.cropped, back.step, back.differing) == ((False, True), (None, 1.0), 0.5)
    assert np.allclose(back.homography, np.diag([0.5, 0.25, 1.0]))


def test_of_a_framed_picture_of_another_shape_nobody_knows_which_was_stretched() -> None:
    apart = ((480, 360), (440, 400)), lambda: (np.zeros((360, 480, 3), np.uint8), np.zeros((400, 440, 3), np.uint8))
    squeezed = compare_detail(Comparison(np.eye(3), framed=(True, False)), *apart)
    assert squeezed["stretched"] == [True, True], "its shape is not the camera's"


@pytest.mark.parametrize(("side", "quality"), [(1.0, 60), (0.7, 90), (0.5, 60)])
def test_a_product_of_another_colour_does_not_go(tmp_path: Path, side: float, quality: int) -> None:
    """Most of the picture is a white ground, which is the same."""
    product, mask = Image.blend(draw(), Image.new("RGB", (480, 360), (190, 70, 60)), 0.6), Image.new("L", (480, 360))
    ImageDraw.Draw(mask).ellipse((190, 110, 300, 260), fill=255)
    white = Image.new("RGB", product.size, "white")
    save(tmp_path, "one", Image.composite(product, white, mask), "jpg 95")
    save(tmp_path, "other", scale(side)(Image.composite(turn_hue(product, 40), white, mask)), f"jpg {quality}")
    rows = plan(tmp_path)
    assert (rows["one"].action, rows["other"].action) == ("keep", "review")
    judge = PairJudge()
    found = EditComparer(judge).compare(*(picture_facts(tmp_path / name) for name in ("one.jpg", "other.jpg")))
    assert found is None or found.recoloured[0]


def test_a_caption_gives_no_other_tones(tmp_path: Path) -> None:
    caption = paint(lambda drawn: drawn.rectangle((40, 280, 360, 330), "white"))
    save_made(tmp_path, (same, "jpg 95"), (caption, "jpg 85"))
    row = plan(tmp_path)["made"]
    assert row.action == "review" and "covered" in row.reason and "tones" not in row.reason + row.original


@pytest.mark.parametrize("edit", [ImageOps.mirror, ImageOps.flip, turn(90), turn(3)])
def test_of_a_mirrored_or_turned_pair_none_goes(tmp_path: Path, edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "find_made", lambda *files: None)
    draw().save(tmp_path / "original.jpg", quality=92)
    edit(draw()).save(tmp_path / "turned.jpg", quality=99)
    rows = list(plan(tmp_path).values())
    assert [row.action for row in rows] == ["keep", "review"]
    assert rows[1].reason.endswith(": one of the two was mirrored or turned")


@pytest.mark.parametrize("edit", [ImageOps.mirror, brighten])
def test_the_edited_one_of_two_is_not_suggested_for_its_bytes(
    tmp_path: Path, edit: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where their pixels do not tell, but the date on which one was taken."""
    monkeypatch.setattr(originals, "find_made", lambda *files: None)
    save(tmp_path, "original", draw(), "jpg 92+")
    save(tmp_path, "edited", edit(compress(draw(), 92)), "jpg 97")
    rows = plan(tmp_path)
    assert (rows["original"].action, rows["edited"].action) == ("keep", "review")
    assert rows["original"].reason.endswith("does not say when it was taken")
