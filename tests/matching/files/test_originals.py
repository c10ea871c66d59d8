"""The kept file of certain copies is the one that was edited least, not the one with the most pixels."""

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

from image_copies.data.procedural import draw_picture
from image_copies.matching.files import originals
from image_copies.matching.files.facts import picture_facts
from image_copies.matching.files.keeping import KeepRule, KeepSettings
from image_copies.matching.files.originals import EditComparer, choose_least_edited, find_advantage
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.group_plan import plan_group
from image_copies.matching.knowledge import Knowledge, list_pairs
from image_copies.matching.matches import Match
from image_copies.matching.pairs import PairJudge
from image_copies.matching.verification.blocks import to_grey
from image_copies.matching.verification.detail import compare_detail
from image_copies.matching.verification.edits import Comparison, Edits
from image_copies.matching.verification.enlargement import measure_new_detail
from image_copies.matching.verification.quantisation import Quantisation

DATE = Image.Exif()
DATE.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2024:05:04 12:00:00"


def draw(seed: int = 3) -> Image.Image:
    """A picture of 480 × 360 with detail at every scale."""
    pixels = np.asarray(
        Image.fromarray(draw_picture(np.random.default_rng(seed), 640)).resize((480, 360), Image.Resampling.LANCZOS)
    )
    noise = np.random.default_rng(seed).normal(0, 6, pixels.shape)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def scale(picture: Image.Image, x: float, y: float) -> Image.Image:
    return picture.resize((round(picture.width * x), round(picture.height * y)), Image.Resampling.BICUBIC)


def write(picture: Image.Image) -> Image.Image:
    shown = picture.copy()
    font = ImageFont.load_default(40)
    ImageDraw.Draw(shown).text((40, 290), "ALL OF US 1998", (255, 255, 255), font, stroke_width=3, stroke_fill=(0, 0, 0))
    return shown


def cover(picture: Image.Image) -> Image.Image:
    shown = picture.copy()
    ImageDraw.Draw(shown).ellipse((180, 120, 260, 200), (255, 220, 0), (0, 0, 0), 2)
    return shown


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


def comparing(found: Comparison) -> EditComparer:
    """A comparer that finds this of all pairs."""
    comparer = EditComparer(PairJudge())
    comparer.compare = lambda one, other: found  # type: ignore[method-assign]
    return comparer


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (write, "has something laid over it"),
        (cover, "has something laid over it"),
        (lambda picture: ImageOps.expand(picture, 24, "white"), "has something added around it"),
        (lambda picture: ImageOps.expand(picture, (0, 45, 0, 45), "black"), "has something added around it"),
        (lambda picture: scale(picture, 1.5, 1.5), "was enlarged"),
        (lambda picture: scale(picture, 1.3, 1.0), "was stretched"),
        (lambda picture: scale(picture, 1.0, 4 / 3), "was stretched"),
        (
            lambda picture: scale(ImageOps.expand(picture, 24, "white"), 1.4, 1.4),
            "has something added around it and was enlarged",
        ),
    ],
)
def test_an_edited_copy_is_not_kept_for_its_size(tmp_path: Path, edit: Callable[[Image.Image], Image.Image], reason: str) -> None:
    original = draw()
    original.save(tmp_path / "original.jpg", quality=85)
    edit(original).save(tmp_path / "edited.jpg", quality=97)
    scale(compress(original, 85), 0.75, 0.75).save(tmp_path / "small.jpg", quality=85)
    assert picture_facts(tmp_path / "edited.jpg").size > picture_facts(tmp_path / "original.jpg").size
    rows = plan(tmp_path)
    size = "{0.width} × {0.height}".format(Image.open(tmp_path / "edited.jpg"))
    assert (rows["original"].action, rows["original"].reason) == (
        "keep",
        f"least edited: edited.jpg, {size}, {reason}",
    )
    assert rows["edited"].action == "review" and rows["edited"].reason.endswith("; a person should look: it is the larger file")
    assert "tones" not in rows["edited"].original
    assert rows["small"].action == "remove" and rows["small"].kept == tmp_path / "original.jpg"
    assert "least edited" not in str([row.reason for row in plan(tmp_path, "oldest").values()])  # as asked for, whatever it is


@pytest.mark.parametrize(
    "edit",
    [
        lambda picture: picture.crop((40, 30, 480, 360)),
        lambda picture: ImageOps.grayscale(picture).convert("RGB"),
        lambda picture: scale(picture, 0.5, 0.65),
    ],
)
def test_an_edited_copy_of_a_larger_original_goes(tmp_path: Path, edit: Callable[[Image.Image], Image.Image]) -> None:
    original = compress(draw(), 92)
    draw().save(tmp_path / "original.jpg", quality=92)
    edit(original).save(tmp_path / "edited.jpg", quality=70)
    rows = plan(tmp_path)
    assert rows["original"].action == "keep" and not rows["original"].reason.startswith("least edited")
    assert rows["edited"].action == "remove"


def test_a_smaller_file_of_which_a_part_differs_is_looked_at(tmp_path: Path) -> None:
    """It may show what is hidden in the larger one, or be another page of the same form."""
    edited = draw()
    edited.paste((200, 200, 40), (200, 150, 270, 210))
    edited.save(tmp_path / "covered.jpg", quality=92)
    scale(draw(), 0.8, 0.8).save(tmp_path / "clean.jpg", quality=85)
    rows = plan(tmp_path)
    assert {row.action for row in rows.values()} == {"keep", "review"}


def blur_part(picture: Image.Image) -> Image.Image:
    shown, box = picture.copy(), (200, 150, 230, 180)
    shown.paste(shown.crop(box).filter(ImageFilter.GaussianBlur(4)), box)
    return shown


def fill_in(picture: Image.Image, number: str = "12") -> Image.Image:
    shown = picture.copy()
    ImageDraw.Draw(shown).rectangle((140, 140, 300, 180), "white")
    ImageDraw.Draw(shown).text((150, 150), f"Total: {number}.00", "black", font=ImageFont.load_default(14))
    return shown


@pytest.mark.parametrize(
    ("one", "other"),
    [(draw, lambda: blur_part(draw())), (lambda: fill_in(draw(), "12"), lambda: fill_in(draw(), "73"))],
)
@pytest.mark.parametrize("side", [1.0, 0.8])
def test_a_small_part_that_differs_is_seen(
    tmp_path: Path, one: Callable[[], Image.Image], other: Callable[[], Image.Image], side: float
) -> None:
    scale(one(), side, side).save(tmp_path / "original.jpg", quality=85)
    other().save(tmp_path / "other.jpg", quality=95)
    assert sorted(row.action for row in plan(tmp_path).values()) == ["keep", "review"]


def sharpen(picture: Image.Image) -> Image.Image:
    return picture.filter(ImageFilter.UnsharpMask(2, 150, 0))


@pytest.mark.parametrize("factor", [1.2, 1.5, 2.0])
@pytest.mark.parametrize("finish", [lambda picture: picture, sharpen, lambda picture: add_noise(sharpen(picture))])
def test_an_original_does_not_go_for_a_copy_that_was_enlarged_and_sharpened(
    tmp_path: Path, factor: float, finish: Callable[[Image.Image], Image.Image]
) -> None:
    draw().save(tmp_path / "original.jpg", quality=92)
    finish(scale(compress(draw(), 92), factor, factor)).save(tmp_path / "enlarged.jpg", quality=95)
    assert plan(tmp_path)["original"].action in ("keep", "review")


def add_noise(picture: Image.Image) -> Image.Image:
    noise = np.random.default_rng(5).normal(0, 5, (picture.height, picture.width, 3))
    return Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))


def test_a_file_does_not_go_for_one_that_is_less_sharp(tmp_path: Path) -> None:
    draw().filter(ImageFilter.GaussianBlur(1.5)).save(tmp_path / "blurred.png")
    scale(draw(), 0.8, 0.8).save(tmp_path / "small.jpg", quality=85)
    assert plan(tmp_path)["small"].action in ("keep", "review")


def put_on_page(picture: Image.Image) -> Image.Image:
    """The lower edge of the picture is as white as the bar below it."""
    page = ImageOps.expand(picture, (0, 0, 0, 60), "white")
    ImageDraw.Draw(page).text((40, picture.height + 15), "all of us at the lake", "black", ImageFont.load_default(30))
    return page


@pytest.mark.parametrize(
    "extend",
    [
        put_on_page,
        lambda picture: Image.fromarray(np.pad(np.asarray(picture), ((0, 0), (60, 60), (0, 0)), mode="reflect")),
        lambda picture: Image.fromarray(np.pad(np.asarray(picture), ((0, 0), (60, 60), (0, 0)), mode="edge")),
    ],
)
def test_an_original_does_not_go_for_a_copy_that_was_extended(
    tmp_path: Path, extend: Callable[[Image.Image], Image.Image]
) -> None:
    original = draw()
    original.paste("white", (0, 330, 480, 360))
    original.save(tmp_path / "original.jpg", quality=92)
    extend(original).save(tmp_path / "extended.jpg", quality=92)
    assert plan(tmp_path)["original"].action in ("keep", "review")


def test_other_shots_of_a_scene_are_kept_instead_of_their_own_copies(tmp_path: Path) -> None:
    """None goes through a chain, or for a file that goes itself."""
    for seed in (3, 4):
        draw(seed).save(tmp_path / f"shot {seed}.jpg", quality=92)
        for side in (0.7, 0.5):
            scale(compress(draw(seed), 92), side, side).save(tmp_path / f"copy {seed} {side}.jpg", quality=85)
    rows = plan(tmp_path)
    gone = {stem: row.kept.stem for stem, row in rows.items() if row.action == "remove"}
    assert gone == {f"copy {seed} {side}": f"shot {seed}" for seed in (3, 4) for side in (0.7, 0.5)}
    assert {stem for stem, row in rows.items() if row.action == "keep"} == {"shot 3", "shot 4"}
    assert next(iter(rows)) == "shot 3"  # the kept file of the group comes first


@pytest.mark.parametrize("form", ["larger.png", "same.png"])
def test_a_file_with_a_date_does_not_go_for_one_without(tmp_path: Path, form: str) -> None:
    draw().save(tmp_path / "dated.jpg", quality=92, exif=DATE)
    with Image.open(tmp_path / "dated.jpg") as picture:
        scaled = scale(picture.convert("RGB"), 2, 2) if form == "larger.png" else picture
        scaled.save(tmp_path / form)
    assert plan(tmp_path)["dated"].action in ("keep", "review")


@pytest.mark.parametrize(
    ("edit", "advantage"),
    [
        (lambda picture: picture.crop((60, 40, 480, 360)), "it shows more than the kept file"),
        (lambda picture: scale(picture, 0.4, 0.4), "it has more pixels than the kept file"),
        (write, "the kept file has something laid over it"),
    ],
)
def test_an_original_does_not_go_whatever_the_kept_file_is_kept_for(
    tmp_path: Path, edit: Callable[[Image.Image], Image.Image], advantage: str
) -> None:
    edit(draw()).save(tmp_path / "edited.jpg", quality=95)
    draw().save(tmp_path / "original.jpg", quality=95)
    os.utime(tmp_path / "edited.jpg", (1, 1))
    for rows in (plan(tmp_path, reference="edited"), plan(tmp_path, "oldest"), plan(tmp_path, preferred=("edited.jpg",))):
        assert (rows["edited"].action, rows["original"].action) == ("keep", "review")
        assert rows["original"].reason.endswith(f"; a person should look: {advantage}")


def test_what_has_something_that_the_kept_file_lacks_is_looked_at(tmp_path: Path) -> None:
    """A caption, a sticker, another name in the same form: these went."""
    draw().save(tmp_path / "original.jpg", quality=92)
    scale(write(draw()), 0.8, 0.8).save(tmp_path / "written.jpg", quality=80)
    rows = plan(tmp_path)
    assert rows["original"].action == "keep" and rows["written"].action == "review"
    assert rows["written"].reason.endswith("; a person should look: it has something that the kept file lacks")


def test_a_blurred_copy_is_looked_at_for_one_reason_that_contradicts_nothing(tmp_path: Path) -> None:
    draw().save(tmp_path / "original.jpg", quality=95)
    draw().filter(ImageFilter.GaussianBlur(2)).save(tmp_path / "blurred.jpg", quality=85)
    said = plan(tmp_path)["blurred"].reason.partition(" (")
    assert said[0] == "blurred, otherwise the same"
    assert said[2].partition("); ")[2] == "a person should look: they differ by more than compression"


def test_the_same_form_with_another_name_is_looked_at(tmp_path: Path) -> None:
    for name in ("Miller 120.00", "Schmidt 999.50"):
        filled = draw()
        ImageDraw.Draw(filled).text((150, 150), name, "black", font=ImageFont.load_default(30))
        filled.save(tmp_path / f"{name[:6]}.png")
    rows = plan(tmp_path)
    assert {row.action for row in rows.values()} == {"keep", "review"}
    assert {row.judgement.kind for row in rows.values() if row.judgement} == {"likely"}


def test_what_shows_more_than_the_kept_file_is_looked_at(tmp_path: Path) -> None:
    """The larger file has a caption; the other one shows what is below, but was cropped."""
    original = draw()
    scale(write(original), 1.0, 1.0).save(tmp_path / "written.jpg", quality=95)
    original.crop((60, 40, 480, 360)).save(tmp_path / "cropped.jpg", quality=90)
    rows = plan(tmp_path)
    assert rows["written"].action == "keep" and rows["cropped"].action == "review"
    assert rows["cropped"].reason.endswith("; a person should look: the kept file has something laid over it")


def test_a_camera_file_is_not_called_enlarged(tmp_path: Path) -> None:
    """It is soft at its own size, as those of telephones are, and says when it was taken."""
    soft, small = scale(draw(), 2, 2), draw()
    soft.save(tmp_path / "camera.jpg", quality=92, exif=DATE)
    small.save(tmp_path / "small.jpg", quality=92)
    rows = plan(tmp_path)
    assert (rows["camera"].action, rows["small"].action) == ("keep", "review")
    soft.save(tmp_path / "camera.jpg", quality=92)
    assert plan(tmp_path)["small"].reason.endswith("camera.jpg, 960 × 720, was enlarged")


@pytest.mark.parametrize("strength", [0.0, 0.2])
def test_a_copy_without_colours_is_not_kept_for_its_bytes(tmp_path: Path, strength: float) -> None:
    draw().save(tmp_path / "original.jpg", quality=92)
    ImageEnhance.Color(draw()).enhance(strength).save(tmp_path / "grey.png")
    rows = plan(tmp_path)
    assert rows["original"].action == "keep" and rows["original"].reason.endswith("grey.png, 480 × 360, has lost its colours")
    assert rows["grey"].action == "review"
    rows = plan(tmp_path, reference="grey")
    assert rows["original"].action == "review" and rows["original"].reason.endswith(
        "; a person should look: the kept file has lost its colours"
    )


def compress(picture: Image.Image, quality: int) -> Image.Image:
    target = io.BytesIO()
    picture.save(target, "JPEG", quality=quality)
    return Image.open(target).convert("RGB")


@pytest.mark.parametrize("name", ["again.png", "again.jpg"])
def test_a_worse_file_that_was_saved_again_is_not_kept_for_its_bytes(tmp_path: Path, name: str) -> None:
    """It shows the steps of its first compression, as PNG and as JPEG of a high quality; the original was removed for it."""
    draw().save(tmp_path / "original.jpg", quality=86)
    compress(compress(draw(), 86), 50).save(tmp_path / name, quality=99)
    scale(compress(draw(), 86), 0.6, 0.6).save(tmp_path / "small.jpg", quality=92)
    assert (tmp_path / name).stat().st_size > (tmp_path / "original.jpg").stat().st_size
    rows = plan(tmp_path)
    assert (rows["original"].action, rows["again"].action, rows["small"].action) == ("keep", "review", "remove")
    assert rows["original"].reason.endswith(f"{name}, 480 × 360, was compressed more, or once more")


def test_what_was_saved_again_at_a_higher_quality_is_not_kept_for_its_bytes(tmp_path: Path) -> None:
    """It is what the original gives when it is compressed; the original is not quite what it gives."""
    draw().save(tmp_path / "original.jpg", quality=92)
    compress(draw(), 92).save(tmp_path / "again.jpg", quality=97)
    rows = plan(tmp_path)
    assert (rows["again"].action, rows["original"].action) == ("review", "keep")
    assert rows["original"].reason.endswith("again.jpg, 480 × 360, follows from the other one by its pixels")
    assert rows["again"].original == "the kept file: this one follows from the other one by its pixels"


UNCLEAR = "both JPEG and JPEG have as many pixels, and neither says which was first"


@pytest.mark.parametrize(("steps", "said"), [((None, None), UNCLEAR), ((4.0, None), UNCLEAR), ((4.0, 4.0), ""), ((4.0, 4.4), "")])
def test_where_nothing_says_which_of_two_compressions_came_first_a_person_looks(
    tmp_path: Path, steps: tuple[float | None, float | None], said: str
) -> None:
    """But either of two may go that were compressed alike, as by a program that keeps the tables."""
    draw().save(tmp_path / "one.jpg", quality=92)
    facts = picture_facts(tmp_path / "one.jpg")
    one, other = (Edits(quantisation=None if step is None else Quantisation(step, saved_again=False)) for step in steps)
    either = Comparison(one, other, np.eye(3), compressed=True, reversed=True)
    assert find_advantage(facts, facts, comparing(either)) == said


def draw_chart() -> Image.Image:
    picture = Image.new("RGB", (640, 480), "white")
    drawn = ImageDraw.Draw(picture)
    for bar in range(8):
        drawn.rectangle((30 + bar * 75, 440 - bar * 37 % 300, 75 + bar * 75, 440), (66, 114, 196))
        drawn.text((30 + bar * 75, 445), f"no. {bar}", 0, ImageFont.load_default(18))
        drawn.ellipse((40 + bar * 70, 20 + bar * 9, 70 + bar * 70, 60 + bar * 9), (200, 40 * bar % 250, 30), 0)
    return picture


@pytest.mark.parametrize(("picture", "side"), [(draw().resize((640, 480), Image.Resampling.LANCZOS), 0.7), (draw_chart(), 0.5)])
def test_what_was_exported_at_two_sizes_goes_at_the_smaller_one(tmp_path: Path, picture: Image.Image, side: float) -> None:
    """None of the two is made of the other one's file; sharp edges of a drawing on white show that it was not enlarged."""
    picture.save(tmp_path / "original.jpg", quality=93)
    size = round(picture.width * side), round(picture.height * side)
    picture.resize(size, Image.Resampling.LANCZOS).save(tmp_path / "small.jpg", quality=88)
    row = plan(tmp_path)["small"]
    assert row.action == "remove", row


def test_edges_of_a_drawing_say_that_it_was_not_enlarged_if_they_are_sharper_than_sharpening_makes_them() -> None:
    chart, to_small = draw_chart(), np.array([[0.5, 0, -0.25], [0, 0.5, -0.25], [0, 0, 1]])
    small = chart.resize((320, 240), Image.Resampling.LANCZOS)
    greys = [to_grey(np.asarray(picture)) for picture in (chart, sharpen(scale(small, 2, 2)), small)]
    assert measure_new_detail(greys[0], greys[2], to_small) > 0 == measure_new_detail(greys[1], greys[2], to_small)


@pytest.mark.parametrize(("differing", "compressed", "said"), [(2.5, False, True), (1.5, False, False), (2.5, True, False)])
def test_a_part_that_differs_is_a_reason_to_look(tmp_path: Path, differing: float, compressed: bool, said: bool) -> None:
    draw().save(tmp_path / "one.jpg", quality=92)
    facts = picture_facts(tmp_path / "one.jpg")
    found = Comparison(Edits(), Edits(), np.eye(3), compressed=compressed, differing=differing)
    assert (find_advantage(facts, facts, comparing(found)) == "a part of the two differs") is said


@pytest.mark.parametrize(
    ("query", "reference", "side", "said"),
    [
        (Edits(blurred=True), Edits(), 1.0, "it is sharper than the kept file"),
        (Edits(blurred=True, new_detail=99.0), Edits(), 1.0, ""),
        (Edits(density=1.5), Edits(), 1.0, "nothing says that the kept file was not enlarged"),
        (Edits(density=1.5, new_detail=99.0), Edits(), 1.0, ""),
        (Edits(), Edits(cropped=True), 0.4, "it is a small part of the kept file, which somebody chose"),
        (Edits(), Edits(cropped=True), 0.6, ""),
    ],
)
def test_what_a_file_has_before_the_kept_one_is_said(
    tmp_path: Path, query: Edits, reference: Edits, side: float, said: str
) -> None:
    """`side`: of the part of the kept file that the other one shows."""
    draw().save(tmp_path / "one.jpg", quality=92)
    facts = picture_facts(tmp_path / "one.jpg")
    found = Comparison(query, reference, np.diag([1 / side, 1 / side, 1.0]), compressed=True)
    assert find_advantage(facts, facts, comparing(found)) == said


FORMS = [("JPEG", 50), ("JPEG", 90), ("WEBP", 60), ("WEBP", 80), ("AVIF", 60), ("PNG", 100)]


@pytest.mark.parametrize(("form", "quality"), FORMS)
@pytest.mark.parametrize(("side", "filter_"), [(1.0, None), (0.6, Image.Resampling.BILINEAR)])
def test_re_saves_of_the_kept_file_go(
    tmp_path: Path, form: str, quality: int, side: float, filter_: Image.Resampling | None
) -> None:
    """Of a JPEG saved as WebP none went, and a PNG of it was kept for its bytes."""
    draw().save(tmp_path / "original.jpg", quality=93, exif=DATE)
    picture = compress(draw(), 93)
    saved = picture.resize((round(480 * side), round(360 * side)), filter_) if filter_ else picture
    saved.save(tmp_path / f"copy.{form.lower()}", form, quality=quality)
    rows = plan(tmp_path)
    assert (rows["original"].action, rows["copy"].action) == ("keep", "remove")


@pytest.mark.parametrize(
    ("original", "made", "goes"),
    [
        (("JPEG", 85), ("PNG", 100), True),
        (("JPEG", 92), ("TIFF", 100), True),
        (("JPEG", 92), ("WEBP", 101), True),
        (("JPEG", 92), ("WEBP", 97), True),
        (("JPEG", 92), ("AVIF", 100), True),
        (("JPEG", 85), ("AVIF", 60), True),
        (("JPEG", 92), ("HEIF", 95), True),
        (("PNG", 100), ("AVIF", 90), False),
        (("TIFF", 100), ("AVIF", 100), False),
        (("HEIF", 95), ("JPEG", 92), False),
        (("AVIF", 95), ("JPEG", 92), False),
        (("WEBP", 95), ("JPEG", 92), False),
    ],
)
def test_no_original_goes_for_what_was_made_of_it(
    tmp_path: Path, original: tuple[str, int], made: tuple[str, int], goes: bool
) -> None:
    """Camera JPEGs went for the HEIF of each and for lossless WebP (a quality of 101 here), a PNG for an AVIF."""
    if "HEIF" in (original[0], made[0]):
        pytest.importorskip("pillow_heif").register_heif_opener()
    picture = draw()
    for name, (form, quality) in (("original", original), ("made", made)):
        path = tmp_path / f"{name}.{form.lower()}"
        options = {"subsampling": "4:4:4"} if form == "AVIF" and quality >= 90 else {}
        picture.save(path, form, quality=min(quality, 100), lossless=quality > 100, **options)
        picture = Image.open(path).convert("RGB")
    rows = plan(tmp_path)
    assert (rows["original"].action, rows["made"].action) == ("keep", "remove" if goes else "review")
    assert plan(tmp_path, preferred=("made.*",))["original"].action == "review"


@pytest.mark.parametrize("side", [1.0, 0.7, 0.5])
@pytest.mark.parametrize("quality", [60, 90])
def test_a_product_of_another_colour_does_not_go(tmp_path: Path, side: float, quality: int) -> None:
    """Most of the picture is a white ground, which is the same."""
    product, mask = Image.blend(draw(), Image.new("RGB", (480, 360), (190, 70, 60)), 0.6), Image.new("L", (480, 360))
    ImageDraw.Draw(mask).ellipse((190, 110, 300, 260), fill=255)
    hue, saturation, value = product.convert("HSV").split()
    other = Image.merge("HSV", (hue.point([(level + 40) % 256 for level in range(256)]), saturation, value)).convert("RGB")
    Image.composite(product, Image.new("RGB", product.size, "white"), mask).save(tmp_path / "one.jpg", quality=95)
    shown = Image.composite(other, Image.new("RGB", product.size, "white"), mask)
    scale(shown, side, side).save(tmp_path / "other.jpg", quality=quality)
    rows = plan(tmp_path)
    assert (rows["one"].action, rows["other"].action) == ("keep", "review")
    judge = PairJudge()
    found = EditComparer(judge).compare(*(picture_facts(tmp_path / name) for name in ("one.jpg", "other.jpg")))
    assert found is None or found.query.recoloured


def test_a_caption_gives_no_other_tones(tmp_path: Path) -> None:
    draw().save(tmp_path / "original.jpg", quality=95)
    captioned = draw()
    ImageDraw.Draw(captioned).rectangle((40, 280, 360, 330), "white")
    captioned.save(tmp_path / "captioned.jpg", quality=85)
    row = plan(tmp_path)["captioned"]
    assert row.action == "review" and "laid over" in row.reason and "tones" not in row.reason + row.original


def test_a_decoder_that_rounds_up_makes_no_other_tones(tmp_path: Path) -> None:
    """A quarter of 601 rows are 151: scaled to a square, they lay half a row lower than those of the smaller copy."""
    picture = draw().resize((800, 601))
    for top in range(300, 601, 60):
        ImageDraw.Draw(picture).rectangle((0, top, 800, top + 14), (255, 40, 40))
    picture.save(tmp_path / "original.jpg", quality=92)
    picture.resize((400, 300)).save(tmp_path / "small.jpg", quality=85)
    assert plan(tmp_path)["small"].action == "remove"


@pytest.mark.parametrize("edit", [sharpen, add_noise, lambda picture: picture.filter(ImageFilter.MedianFilter(3)), fill_in])
@pytest.mark.parametrize(("form", "quality"), [("JPEG", 12), ("JPEG", 70), ("WEBP", 60)])
@pytest.mark.parametrize("side", [1.0, 0.5])
def test_of_two_versions_none_goes_at_any_scale(
    tmp_path: Path, edit: Callable[[Image.Image], Image.Image], form: str, quality: int, side: float
) -> None:
    """A reduced original went for the large file that was sharpened, and a form for one with another digit, at a low quality."""
    one, other = (fill_in(draw(), "73"), edit(draw())) if edit is fill_in else (draw(), edit(draw()))
    other.save(tmp_path / "large.jpg", quality=95)
    scale(one, side, side).save(tmp_path / f"small.{form.lower()}", form, quality=quality)
    assert sorted(row.action for row in plan(tmp_path).values()) == ["keep", "review"]


def save_derived(picture: Image.Image, folder: Path) -> None:
    """Save copies of a picture that differ from it in size and quality alone."""
    for number, side in enumerate((0.8, 0.6, 0.4)):
        scale(picture, side, side).save(folder / f"small {number}.jpg", quality=85)
    picture.save(folder / "worse.jpg", quality=70)


@pytest.mark.parametrize(
    "edit",
    [
        ImageOps.mirror,
        lambda picture: picture.rotate(90, expand=True),
        lambda picture: ImageEnhance.Brightness(picture).enhance(1.2),
        lambda picture: ImageEnhance.Contrast(picture).enhance(1.3),
        lambda picture: ImageOps.expand(picture, 24, "white"),
    ],
)
def test_no_majority_decides_which_of_two_was_edited(tmp_path: Path, edit: Callable[[Image.Image], Image.Image]) -> None:
    """Four saves of an edited copy would outvote the original."""
    draw().save(tmp_path / "original.jpg", quality=92)
    edit(draw()).save(tmp_path / "edited.jpg", quality=92)
    for others in (draw(), edit(draw())):
        save_derived(others, tmp_path)
        rows = plan(tmp_path)
        assert {rows["original"].action, rows["edited"].action} <= {"keep", "review"}


def test_the_majority_does_not_cost_an_original(tmp_path: Path) -> None:
    """It was turned and saved again, and that was copied; of a page the text is not to be lost."""
    compress(draw(), 85).save(tmp_path / "original.jpg", quality=85)
    turned = Image.open(tmp_path / "original.jpg").rotate(90, expand=True)
    turned.save(tmp_path / "turned.jpg", quality=95)
    for number, side in enumerate((0.9, 0.6, 0.4)):
        scale(turned, side, side).save(tmp_path / f"small {number}.jpg", quality=85)
    rows = plan(tmp_path)
    assert rows["original"].action in ("keep", "review") and rows["turned"].action in ("keep", "review")
    page = ImageOps.expand(draw(), 120, "white")
    for top in (10, 50, 500, 540):
        ImageDraw.Draw(page).text((20, top), "all of us at the lake, in the summer of 1998", "black", ImageFont.load_default(30))
    (tmp_path / "page").mkdir()
    draw().save(tmp_path / "page" / "original.jpg", quality=92)
    page.save(tmp_path / "page" / "page.jpg", quality=92)
    save_derived(draw(), tmp_path / "page")
    assert plan(tmp_path / "page")["page"].action in ("keep", "review")


@pytest.mark.parametrize(
    "edit",
    [
        lambda picture: picture.filter(ImageFilter.UnsharpMask(2, 120, 1)),
        lambda picture: picture.filter(ImageFilter.MedianFilter(3)),
        lambda picture: picture.filter(ImageFilter.GaussianBlur(0.9)),
        lambda picture: add_noise(picture),
        lambda picture: scale(scale(picture, 0.625, 0.625), 1.6, 1.6),
        lambda picture: picture.crop((2, 2, 478, 358)).resize(picture.size, Image.Resampling.BICUBIC),
    ],
)
@pytest.mark.parametrize("quality", [80, 92])
@pytest.mark.parametrize("exif", [Image.Exif(), DATE])
def test_a_coarser_file_does_not_go_for_what_was_made_of_it(
    tmp_path: Path, edit: Callable[[Image.Image], Image.Image], quality: int, exif: Image.Exif
) -> None:
    draw().save(tmp_path / "original.jpg", quality=quality)
    edit(compress(draw(), quality)).save(tmp_path / "edited.jpg", quality=96, exif=exif)
    assert plan(tmp_path)["original"].action in ("keep", "review")


def test_a_form_does_not_go_for_a_finer_scan_of_one_with_another_digit(tmp_path: Path) -> None:
    for name, number, quality in (("one", "20391", 80), ("other", "20891", 95)):
        page = Image.new("RGB", (1000, 1400), "white")
        for line in range(30):
            ImageDraw.Draw(page).text(
                (60, 40 + 44 * line), "all of us at the lake, in the summer", "black", ImageFont.load_default(22)
            )
        ImageDraw.Draw(page).text((700, 1360), number, (20, 20, 90), ImageFont.load_default(18))
        page.save(tmp_path / f"{name}.jpg", quality=quality)
    assert sorted(row.action for row in plan(tmp_path).values()) == ["keep", "review"]


def test_what_is_a_file_compressed_again_goes(tmp_path: Path) -> None:
    draw().save(tmp_path / "original.jpg", quality=95)
    original = compress(draw(), 95)
    original.save(tmp_path / "again.jpg", quality=70)
    original.crop((37, 21, 401, 330)).save(tmp_path / "part.jpg", quality=70)
    rows = plan(tmp_path)
    assert (rows["original"].action, rows["again"].action, rows["part"].action) == ("keep", "remove", "remove")


def straighten(picture: Image.Image, degrees: float) -> Image.Image:
    turned = picture.rotate(degrees, Image.Resampling.BICUBIC)
    return turned.crop((30, 30, picture.width - 30, picture.height - 30))


def test_an_original_stays_next_to_what_was_straightened(tmp_path: Path) -> None:
    draw().save(tmp_path / "original.jpg", quality=90)
    straighten(draw(), 3).save(tmp_path / "straight.jpg", quality=90)
    rows = plan(tmp_path)
    assert (rows["original"].action, rows["straight"].action) == ("keep", "review")
    scale(straighten(draw(), 3), 2, 2).save(tmp_path / "straight.jpg", quality=90)
    assert plan(tmp_path)["original"].action == "keep"


def test_an_original_stays_where_corners_were_filled_after_a_turn(tmp_path: Path) -> None:
    """What was made of it shows all of it, and something in the corners."""
    pixels = np.asarray(draw())
    around = Image.fromarray(np.pad(pixels, ((90, 90), (90, 90), (0, 0)), mode="reflect"))
    turned = around.rotate(4, Image.Resampling.BICUBIC)
    width, height = draw().rotate(4, expand=True).size
    left, top = (turned.width - width) // 2, (turned.height - height) // 2
    turned.crop((left, top, left + width, top + height)).save(tmp_path / "turned.jpg", quality=92)
    draw().save(tmp_path / "original.jpg", quality=92)
    assert plan(tmp_path)["original"].action in ("keep", "review")


@pytest.mark.parametrize(
    "edit",
    [
        ImageOps.mirror,
        ImageOps.flip,
        lambda picture: picture.rotate(90, expand=True),
        lambda picture: picture.rotate(3, Image.Resampling.BICUBIC, expand=True, fillcolor=(90, 90, 90)),
    ],
)
def test_of_a_mirrored_or_turned_pair_none_goes(
    tmp_path: Path, edit: Callable[[Image.Image], Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(originals, "find_made", lambda *files: None)
    draw().save(tmp_path / "original.jpg", quality=92)
    edit(draw()).save(tmp_path / "turned.jpg", quality=99)
    for time, kept, other in (
        (3600, "original", "turned"),
        (10800, "turned", "original"),
    ):  # their files' dates alone tell them apart
        os.utime(tmp_path / "original.jpg", (time, time))
        os.utime(tmp_path / "turned.jpg", (7200, 7200))
        rows = plan(tmp_path)
        assert (rows[kept].action, rows[other].action) == ("keep", "review")
        assert rows[other].reason.endswith("; a person should look: one of the two was mirrored or turned")
    draw().save(tmp_path / "original.jpg", quality=92, exif=DATE)
    rows = plan(tmp_path)
    assert sorted(row.action for row in rows.values()) == ["keep", "review"]


@pytest.mark.parametrize("edit", [ImageOps.mirror, lambda picture: ImageEnhance.Brightness(picture).enhance(1.2)])
@pytest.mark.parametrize(
    ("original", "edited", "quality", "exif", "clue"),
    [
        ("b.jpg", "a.jpg", 92, DATE, "does not say when it was taken"),
        ("b.jpg", "b-edited.jpg", 92, Image.Exif(), "is named as a copy"),
        ("b.jpg", "a.jpg", 92, Image.Exif(), "has a younger file"),
    ],
)
def test_the_edited_one_of_two_is_not_suggested_for_its_bytes(
    tmp_path: Path,
    edit: Callable[[Image.Image], Image.Image],
    original: str,
    edited: str,
    quality: int,
    exif: Image.Exif,
    clue: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where their pixels do not tell."""
    monkeypatch.setattr(originals, "find_made", lambda *files: None)
    draw().save(tmp_path / original, quality=quality, exif=exif)
    edit(compress(draw(), quality)).save(tmp_path / edited, quality=97)
    os.utime(tmp_path / original, (1, 1))
    rows = plan(tmp_path)
    assert (rows[Path(original).stem].action, rows[Path(edited).stem].action) == ("keep", "review")
    assert rows[Path(original).stem].reason.endswith(clue)


def test_where_nothing_says_which_of_two_was_edited_a_person_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, side in (("large.jpg", 1.0), ("small.jpg", 0.5)):
        scale(draw(), side, side).save(tmp_path / name)
    large, small = (picture_facts(tmp_path / name) for name in ("large.jpg", "small.jpg"))
    unclear = Comparison(Edits(covered=True), Edits(covered=True), np.eye(3))
    monkeypatch.setattr(EditComparer, "compare", lambda comparer, one, other: unclear)
    assert choose_least_edited(large, [small], EditComparer(PairJudge())) is None
    assert find_advantage(large, small, comparing(unclear)) == "one of the two has something laid over it"
    apart = ((480, 360), (440, 400)), lambda: (np.zeros((360, 480, 3), np.uint8), np.zeros((400, 440, 3), np.uint8))
    squeezed = compare_detail(Comparison(Edits(framed=True), Edits(), np.eye(3)), *apart)
    assert squeezed["stretched"] == [True, True]  # framed: its shape is not the camera's
