"""Which re-saves of a kept original a plan removes, and that it removes no edited version, nor an original for one.

    python benchmarks/resaves.py [DATA] [--sources 24] [--edits 320]      DATA: else the folder that COPYSETS names

Sources: photographs of DATA/lookalikes.zip (800 pixels on the long side), references of DATA/photos (at most 320) and pictures of
DATA/training-photos-2.zip (about 300). Each original is a JPEG of quality 93 with EXIF data; its re-saves have the same EXIF data
or none. `edits`: an original and an edited version, each in either role, the larger file as JPEG of quality 95, the other one as
JPEG of quality 10 to 95 or WebP of 50 to 90, half of them at half the size. Whatever is removed there is wrong. `suggested`: of
originals and their brightened, mirrored and turned versions of quality 75 to 95, how often the edited one
is suggested to be kept.
"""

import argparse
import itertools
import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
from PIL import ExifTags, Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps
from rich.console import Console
from rich.table import Table

from image_copies.data.images import find_images
from image_copies.matching.files.facts import picture_facts
from image_copies.matching.files.keeping import KeepSettings
from image_copies.matching.groups.group_plan import plan_group
from image_copies.matching.index.store import digest_of
from image_copies.matching.knowledge import Knowledge

Picture = Image.Image
FORMS: dict[str, tuple[int, ...]] = {"JPEG": (50, 60, 75, 90), "WEBP": (50, 75, 90), "AVIF": (50, 75, 90), "PNG": (100,)}
SCALES = (1.0, 0.75, 0.6, 0.5)
LEAST_SIDE = 480  # pixels of the long side of a scaled one that counts
FILTERS = Image.Resampling.LANCZOS, Image.Resampling.BICUBIC, Image.Resampling.BILINEAR
BELOW, AT = "scaled, below 480 px", "scaled, 480 px and more"


def take(sources: Path, photos: Path, others: Path, count: int) -> list[Path]:
    """Return so many sources, a third of each kind, evenly spread."""
    lists = [find_images(folder).paths for folder in (sources, photos, others)]
    return [path for paths in lists for path in paths[:: max(1, len(paths) // (count // 3))][: count // 3]]


def make_exif() -> Image.Exif:
    """Return the EXIF data of a camera."""
    exif = Image.Exif()
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Maker", "Camera 1"
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2024:05:04 12:00:00"
    return exif


def save(picture: Picture, path: Path, form: str, quality: int, exif: Image.Exif | None = None) -> Path:
    """Save a picture, with EXIF data or without."""
    picture.save(path, form, quality=quality, **({"exif": exif} if exif else {}))
    return path


def scale(picture: Picture, factor: float, filter_: Image.Resampling = Image.Resampling.LANCZOS) -> Picture:
    """Return a picture reduced by a factor."""
    return picture if factor == 1 else picture.resize((round(picture.width * factor), round(picture.height * factor)), filter_)


def plan_pair(one: Path, other: Path) -> tuple[Path, Path | None]:
    """Return which of two files is suggested to be kept, and which one a plan removes, if any."""
    facts = {path: picture_facts(path) for path in (one, other)}
    digests = {path: digest_of(path) for path in (one, other)}
    kept, file = plan_group(1, [one, other], Knowledge(digests, facts, {}, lambda *pair: -0.1), KeepSettings())
    return kept.file, file.file if file.action == "remove" else None


def measure_resaves(paths: Sequence[Path], folder: Path) -> Table:
    """Return how many re-saves are planned for removal, by format, quality and scale."""
    rng, counts = np.random.default_rng(0), Counter[tuple[str, str, bool]]()
    for path in paths:
        with Image.open(path) as image:
            original = save(image.convert("RGB"), folder / "original.jpg", "JPEG", 93, make_exif())
        picture = Image.open(original)
        side = max(picture.size)
        for form, quality, factor in ((f, q, s) for f, qs in FORMS.items() for q, s in itertools.product(qs, SCALES)):
            if factor < 1 and (side * factor < LEAST_SIDE) == (side > LEAST_SIDE):
                continue  # of large sources no scaled one that does not count
            exif = make_exif() if rng.integers(2) else None
            scaled = scale(picture.convert("RGB"), factor, FILTERS[rng.integers(len(FILTERS))])
            copy = save(scaled, folder / f"copy.{form.lower()}", form, quality, exif)
            kept, removed = plan_pair(original, copy)
            row = f"{form} {quality}" if form != "PNG" else form
            group = "same size" if factor == 1 else AT if side * factor >= LEAST_SIDE else BELOW
            counts[row, group, removed == copy and kept == original] += 1
            counts["all that count" if group != BELOW else "", group, removed == copy] += 1
            counts["with EXIF data" if exif else "without", group, removed == copy] += 1
            copy.unlink()
    table = Table("re-saves planned for removal", "same size", AT, BELOW)
    for row in dict.fromkeys(row for row, _, _ in counts if row):
        cells = [(counts[row, group, True], counts[row, group, False]) for group in ("same size", AT, BELOW)]
        table.add_row(row, *(f"{yes} of {yes + no}" for yes, no in cells))
    return table


def add_digit(picture: Picture, digit: str) -> Picture:
    """Write a number into a picture that differs in one digit alone."""
    size = max(10, picture.width // 40)
    left, top = picture.width // 3, picture.height // 3
    made = picture.copy()
    draw = ImageDraw.Draw(made)
    draw.rectangle((left - 3, top - 3, left + 4 * size, top + size + 5), fill="white")
    draw.text((left, top), f"20{digit}91", "black", ImageFont.load_default(size))
    return made


def add_caption(picture: Picture, words: str) -> Picture:
    """Write words over the lower edge."""
    made, size = picture.copy(), max(12, picture.height // 14)
    place = picture.width // 12, picture.height - round(1.6 * size)
    ImageDraw.Draw(made).text(place, words, "yellow", ImageFont.load_default(size), stroke_width=1, stroke_fill="black")
    return made


def add_logo(picture: Picture) -> Picture:
    """Draw a ring into the corner."""
    made, radius = picture.copy(), picture.width // 20
    box = picture.width - 3 * radius, picture.height - 3 * radius, picture.width - radius, picture.height - radius
    ImageDraw.Draw(made).ellipse(box, outline="white", width=max(2, radius // 6))
    return made


def add_grain(picture: Picture, deviation: float) -> Picture:
    """Add noise."""
    pixels = np.asarray(picture, np.float32)
    noise = np.random.default_rng(1).normal(0, deviation, pixels.shape)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def recolour(picture: Picture) -> Picture:
    """Turn the hue of a thing, an oval in the middle before a white ground."""
    hue, saturation, value = picture.convert("HSV").split()
    turned = Image.merge("HSV", (hue.point([(level + 60) % 256 for level in range(256)]), saturation, value)).convert("RGB")
    return put_on_white(turned)


def put_on_white(picture: Picture) -> Picture:
    """Cut out an oval in the middle and put it before a white ground."""
    mask = Image.new("L", picture.size)
    width, height = picture.size
    ImageDraw.Draw(mask).ellipse((0.3 * width, 0.25 * height, 0.7 * width, 0.75 * height), fill=255)
    return Image.composite(picture, Image.new("RGB", picture.size, "white"), mask)


Edit = Callable[[Picture], Picture]
EDITS: dict[str, tuple[Edit, Edit]] = {  # what was done to the one, and to the other one of two
    "brightened": (lambda p: p, lambda p: ImageEnhance.Brightness(p).enhance(1.1)),
    "sharpened": (lambda p: p, lambda p: p.filter(ImageFilter.UnsharpMask(2, 100, 1))),
    "smoothed": (lambda p: p, lambda p: p.filter(ImageFilter.GaussianBlur(0.8))),
    "median": (lambda p: p, lambda p: p.filter(ImageFilter.MedianFilter(3))),
    "grainy": (lambda p: p, lambda p: add_grain(p, 6)),
    "one digit": (lambda p: add_digit(p, "3"), lambda p: add_digit(p, "8")),
    "caption": (lambda p: add_caption(p, "the lake 2019"), lambda p: add_caption(p, "our trip 2021")),
    "other colour": (put_on_white, recolour),
    "warmer": (
        lambda p: p,
        lambda p: Image.merge(
            "RGB",
            [b.point([min(255, round(f * v)) for v in range(256)]) for b, f in zip(p.split(), (1.06, 1, 0.94), strict=True)],
        ),
    ),
    "logo": (lambda p: p, add_logo),
}


def measure_edits(paths: Sequence[Path], folder: Path, count: int) -> Table:
    """Return how many of two versions that were not made of each other are removed, by edit."""
    rng, counts = np.random.default_rng(1), Counter[tuple[str, str]]()
    for number, (edit, versions) in zip(range(count), itertools.cycle(EDITS.items()), strict=False):
        with Image.open(paths[number // len(EDITS) % len(paths)]) as image:
            source = image.convert("RGB")
        finer, coarser = versions[:: rng.choice([-1, 1])]
        form, quality = ("JPEG", int(rng.integers(10, 96))) if rng.integers(3) else ("WEBP", int(rng.integers(50, 91)))
        factor = rng.choice([1.0, 0.5])
        one = save(finer(source), folder / "one.jpg", "JPEG", 95)
        other = save(scale(coarser(source), factor), folder / f"other.{form.lower()}", form, quality)
        removed = plan_pair(one, other)[1]
        counts[edit, "made"] += 1
        if removed:
            counts[edit, "removed"] += 1
            counts[edit, f"{form} {quality} × {factor}{'' if finer is versions[0] else ', kept is edited'}"] += 1
        other.unlink()
    table = Table("edits", "pairs", "removed, wrongly", "which")
    for edit in EDITS:
        which = [name for kind, name in counts if kind == edit and name not in ("made", "removed")]
        table.add_row(edit, str(counts[edit, "made"]), str(counts[edit, "removed"]), "; ".join(which))
    table.add_row("all", *(str(sum(counts[edit, name] for edit in EDITS)) for name in ("made", "removed")), "")
    return table


SUGGESTED: dict[str, Edit] = {
    "brightened": lambda p: ImageEnhance.Brightness(p).enhance(1.25),
    "mirrored": ImageOps.mirror,
    "turned": lambda p: p.transpose(Image.Transpose.ROTATE_90),
}


def measure_suggestions(paths: Sequence[Path], folder: Path) -> Table:
    """Return how often the edited one of two files without names, dates and EXIF data that speak for one of them is suggested."""
    rng, counts = np.random.default_rng(2), Counter[tuple[str, str]]()
    for edit, path in itertools.product(SUGGESTED, paths):
        with Image.open(path) as image:
            source = image.convert("RGB")
        names = [folder / f"{name}.jpg" for name in rng.permutation(["a", "b"])]
        original = save(source, names[0], "JPEG", int(rng.integers(75, 96)))
        edited = save(SUGGESTED[edit](Image.open(original)), names[1], "JPEG", int(rng.integers(75, 96)))
        for name in names:
            os.utime(name, (1, 1))
        kept, removed = plan_pair(original, edited)
        larger = max(names, key=lambda name: name.stat().st_size)
        counts[edit, "edited"] += kept == edited
        counts[edit, "larger"] += kept == larger
        counts[edit, "removed"] += removed is not None
    table = Table("suggested to be kept", "edited", "the larger file", "removed", "of")
    for edit in SUGGESTED:
        table.add_row(edit, *(str(counts[edit, name]) for name in ("edited", "larger", "removed")), str(len(paths)))
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=os.environ.get("COPYSETS"))
    parser.add_argument("--sources", type=int, default=24, metavar="N", help="sources, a third of each kind (default: 24)")
    parser.add_argument("--edits", type=int, default=320, metavar="N", help="pairs of edited versions (default: 320)")
    parser.add_argument("--only", choices=("resaves", "edits", "suggested"), help="one of the tables")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name DATA, or set COPYSETS")
    cv2.setNumThreads(1)
    console = Console(width=150)
    with tempfile.TemporaryDirectory() as place:
        lookalikes, others, folder = (Path(place) / name for name in ("lookalikes", "others", "pairs"))
        folder.mkdir()
        for target, archive in ((lookalikes, "lookalikes.zip"), (others, "training-photos-2.zip")):
            unzip(Path(options.data) / archive, target)
        paths = take(lookalikes, Path(options.data) / "photos" / "reference_images", others, options.sources)
        tables: dict[str, Callable[[], Table]] = {
            "resaves": lambda: measure_resaves(paths, folder),
            "edits": lambda: measure_edits(paths, folder, options.edits),
            "suggested": lambda: measure_suggestions(paths, folder),
        }
        for name, measure in tables.items():
            if options.only in (None, name):
                console.print(measure())


def unzip(path: Path, target: Path) -> None:
    """Unpack the pictures of an archive."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(target, [name for name in archive.namelist() if name.endswith((".jpg", ".webp"))])


if __name__ == "__main__":
    main()
