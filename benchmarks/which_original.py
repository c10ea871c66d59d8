"""How often it is said which of two copies was made of the other, and how often that is right, by kind of edit.

    python benchmarks/which_original.py [DATA] [--count 40]                           joins which_original.json
    python benchmarks/which_original.py --docs                                        writes the table of matching.md

DATA: else the folder that COPYSETS names. Photographs: every other training image of DATA/photos (the rules were tuned on
the rest), and as many pictures of DATA/training-photos-2.zip. Half of the originals are photographs' own files, the
others are saved afresh, slightly smaller, as JPEG of quality 75 to 97. The edited version is made of the original's pixels and is
saved as JPEG of quality 60 to 97 (of 70 %), WebP or PNG. No metadata, names or dates speak for either. Pairs that are not
certainly copies are not counted.
"""

import argparse
import io
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from measurements import Figures, Measurements
from page_tables import make_table, parse_options
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

from image_copies.data.images import find_images
from image_copies.matching.files.facts import picture_facts
from image_copies.matching.index.store import digest_of
from image_copies.matching.knowledge import Knowledge

Picture = Image.Image
Edit = Callable[[Picture, np.random.Generator], Picture]
RESULTS = Path(__file__).with_name("which_original.json")
COMMAND = "benchmarks/which_original.py --docs"
SAID = RIGHT, WRONG, UNKNOWN, APART = "right", "wrong", "not known", "not certain"
EVEN_TIME = 10**9
FEW = 1.5  # right answers for each that is missing: kinds of edit below this have a row of their own


def scale(picture: Picture, factor: float, filter_: Image.Resampling = Image.Resampling.LANCZOS) -> Picture:
    """Return a picture of another size."""
    return picture.resize((max(8, round(picture.width * factor)), max(8, round(picture.height * factor))), filter_)


def curve(picture: Picture, apply: Callable[[np.ndarray], np.ndarray]) -> Picture:
    """Apply a function of 0…1 to each channel [h, w, 3]."""
    shown = apply(np.asarray(picture, np.float64) / 255)
    return Image.fromarray(np.clip(np.rint(shown * 255), 0, 255).astype(np.uint8))


def crop(picture: Picture, rng: np.random.Generator) -> Picture:
    """Cut off 3 to 15 % of each side."""
    left, top, right, bottom = rng.uniform(0.03, 0.15, 4) * np.tile(picture.size, 2)
    return picture.crop((int(left), int(top), picture.width - int(right), picture.height - int(bottom)))


def caption(picture: Picture, rng: np.random.Generator) -> Picture:
    """Write words."""
    made, size = picture.copy(), max(14, picture.height // 12)
    place = picture.width * rng.uniform(0.05, 0.3), picture.height * rng.choice([0.05, 0.85])
    words = str(rng.choice(["the lake 2019", "WHEN IT RAINS", "our trip"]))
    ImageDraw.Draw(made).text(place, words, "white", ImageFont.load_default(size), stroke_width=2, stroke_fill="black")
    return made


def sticker(picture: Picture, rng: np.random.Generator) -> Picture:
    """Paste a thing with a flat colour."""
    made, side = picture.copy(), min(picture.size) * rng.uniform(0.15, 0.25)
    left, top = (rng.uniform(0.05, 0.7) * bound for bound in picture.size)
    fill = tuple(rng.integers(0, 256, 3).tolist())
    ImageDraw.Draw(made).ellipse((left, top, left + side, top + side), fill, "black", 2)
    return made


def straighten(picture: Picture, rng: np.random.Generator) -> Picture:
    """Turn by a few degrees and cut off the corners."""
    turned = picture.rotate(rng.uniform(1.5, 5) * rng.choice([-1, 1]), Image.Resampling.BICUBIC)
    margin = round(0.09 * max(picture.size))
    return turned.crop((margin, margin, picture.width - margin, picture.height - margin))


def screenshot(picture: Picture, rng: np.random.Generator) -> Picture:
    """Show it on a phone's screen, with bars and words."""
    made = Image.new("RGB", (picture.width, round(picture.height * 1.7)), str(rng.choice(["white", "black", "#e5ddd5"])))
    made.paste(picture, (0, round(picture.height * 0.3)))
    words = ImageFont.load_default(16)
    ImageDraw.Draw(made).text((10, 10), "12:41   Photos", "grey", words)
    ImageDraw.Draw(made).text((10, made.height - 30), "Reply   Forward", "grey", words)
    return made


def add_grain(picture: Picture, rng: np.random.Generator) -> Picture:
    """Add noise."""
    noise = rng.normal(0, rng.uniform(3, 8) / 255, (picture.height, picture.width, 3))
    return curve(picture, lambda pixels: pixels + noise)


def warm(picture: Picture, rng: np.random.Generator) -> Picture:
    """Change the balance of red and blue."""
    by = rng.uniform(0.04, 0.12) * rng.choice([-1, 1])
    return curve(picture, lambda pixels: pixels * (1 + by, 1, 1 - by))


SEPIA = np.array([[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]])
TURNS = Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270
EDITS: dict[str, Edit] = {
    "saved again": lambda p, rng: p,
    "brightened": lambda p, rng: ImageEnhance.Brightness(p).enhance(rng.uniform(1.1, 1.4)),
    "darkened": lambda p, rng: ImageEnhance.Brightness(p).enhance(rng.uniform(0.65, 0.9)),
    "more contrast": lambda p, rng: ImageEnhance.Contrast(p).enhance(rng.uniform(1.15, 1.5)),
    "less contrast": lambda p, rng: ImageEnhance.Contrast(p).enhance(rng.uniform(0.6, 0.85)),
    "gamma": lambda p, rng: curve(p, lambda pixels: pixels ** rng.choice([0.7, 0.8, 1.25, 1.4])),
    "auto contrast": lambda p, rng: ImageOps.autocontrast(p, cutoff=1),
    "equalised": lambda p, rng: ImageOps.equalize(p),
    "more colour": lambda p, rng: ImageEnhance.Color(p).enhance(rng.uniform(1.3, 1.8)),
    "less colour": lambda p, rng: ImageEnhance.Color(p).enhance(rng.uniform(0.3, 0.7)),
    "grey": lambda p, rng: ImageOps.grayscale(p).convert("RGB"),
    "sepia": lambda p, rng: curve(p, lambda pixels: pixels @ SEPIA.T),
    "warmer or colder": warm,
    "mirrored": lambda p, rng: ImageOps.mirror(p),
    "turned": lambda p, rng: p.transpose(TURNS[rng.integers(3)]),
    "mirrored, brightened": lambda p, rng: ImageEnhance.Brightness(ImageOps.mirror(p)).enhance(rng.uniform(1.1, 1.3)),
    "straightened": straighten,
    "cropped": crop,
    "cropped, enlarged": lambda p, rng: scale(crop(p, rng), 1.4),
    "reduced": lambda p, rng: scale(p, rng.uniform(0.4, 0.85)),
    "enlarged": lambda p, rng: scale(p, rng.uniform(1.3, 2), Image.Resampling(int(rng.choice([1, 2, 3])))),
    "stretched": lambda p, rng: p.resize((round(p.width * rng.uniform(1.12, 1.35)), p.height)),
    "blurred": lambda p, rng: p.filter(ImageFilter.GaussianBlur(rng.uniform(0.7, 2))),
    "sharpened": lambda p, rng: p.filter(ImageFilter.UnsharpMask(2, int(rng.integers(60, 160)), 2)),
    "median": lambda p, rng: p.filter(ImageFilter.MedianFilter(3)),
    "grain": add_grain,
    "caption": caption,
    "sticker": sticker,
    "border": lambda p, rng: ImageOps.expand(p, int(rng.integers(8, 40)), str(rng.choice(["white", "black", "#884422"]))),
    "screenshot": screenshot,
}


def save_original(path: Path, target: Path, rng: np.random.Generator) -> None:
    """Write an original: the file as it is, or its picture as a camera might have saved it."""
    if path.suffix == ".jpg" and rng.integers(2):
        shutil.copy(path, target)
        return
    with Image.open(path) as image:
        picture = scale(image.convert("RGB"), 0.9)
    picture.save(target, quality=int(rng.integers(75, 98)), subsampling=int(rng.choice([0, 2])))


def save_edited(picture: Picture, folder: Path, name: str, rng: np.random.Generator) -> Path:
    """Save an edited picture as people do."""
    drawn = rng.random()
    options: dict[str, Any]
    form, options = ("jpg", {"quality": int(rng.integers(60, 98)), "subsampling": int(rng.choice([0, 2]))})
    if drawn > 0.85:
        form, options = "png", {}
    elif drawn > 0.7:
        form, options = "webp", {"quality": int(rng.integers(60, 96))}
    path = folder / f"{name}.{form}"
    picture.save(path, **options)
    return path


def find_answer(one: Path, other: Path) -> tuple[Path | None, str] | None:
    """Return which of two files the other was made of, if that is known, and why; None where they are not certainly copies."""
    facts = {path: picture_facts(path) for path in (one, other)}
    digests = {path: digest_of(path) for path in (one, other)}
    known = Knowledge(digests, facts, {}, lambda *pair: -0.1).of(one, other)
    if not known.judgement.is_certain:
        return None
    return known.origin or (None, "")


def measure(paths: list[Path], kind: str, folder: Path, _seed: int) -> Figures:
    """Return the counts of right, wrong and missing answers of a kind of edit."""
    counts = Counter[str]()
    for path in paths:
        rng = np.random.default_rng([*kind.encode(), *path.name.encode()])
        names = rng.permutation(["a", "b"])
        original = folder / f"{names[0]}.jpg"
        save_original(path, original, rng)
        picture = Image.open(io.BytesIO(original.read_bytes())).convert("RGB")
        edited = save_edited(EDITS[kind](picture, rng), folder, names[1], rng)
        for each in (original, edited):
            os.utime(each, (EVEN_TIME, EVEN_TIME))
        found = find_answer(*sorted((original, edited)))
        said = APART if found is None else {None: UNKNOWN, original: RIGHT}.get(found[0], WRONG)
        counts[said] += 1
        original.unlink()
        edited.unlink()
    return {said: float(counts[said]) for said in SAID}


def choose_pictures(data: Path, count: int, folder: Path) -> list[Path]:
    """Return the pictures of which originals are made; those of an archive are unpacked into a folder."""
    photos = find_images(data / "photos" / "training_images").paths[1::2]
    with zipfile.ZipFile(data / "training-photos-2.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".webp"))
        archive.extractall(folder, names[:: max(1, 2 * len(names) // count)])
    others = sorted(folder.rglob("*.webp"))
    return [*photos[:: max(1, 2 * len(photos) // count)][: count // 2], *others[: count // 2]]


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of matching.md: how often there is an answer, and how often it is right, by the harder kinds of edit."""
    found = {entry["name"]: entry["figures"] for entry in store.measurements}
    hard = {kind: figures for kind, figures in found.items() if figures[WRONG] or figures[RIGHT] < FEW * figures[UNKNOWN]}
    others = [figures for kind, figures in found.items() if kind not in hard]
    hard[f"the other {len(others)} kinds"] = {said: sum(figures[said] for figures in others) for said in SAID}
    hard["all"] = {said: sum(figures[said] for figures in found.values()) for said in SAID}
    rows = [[kind, *(f"{figures[said]:.0f}" for said in SAID)] for kind, figures in hard.items()]
    return {"matching.md": make_table(["edit", *SAID], rows)}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, metavar="N", help="pairs of a kind (default: 40)")
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND)
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        paths = choose_pictures(options.data, options.count, folder)
        (folder / "pairs").mkdir()
        for kind in EDITS:
            store.measure(kind, {"pairs": options.count}, [0], partial(measure, paths, kind, folder / "pairs"))
    print(*make_tables(store).values())


if __name__ == "__main__":
    main()
