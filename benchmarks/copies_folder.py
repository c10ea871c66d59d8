"""Make a folder of 2,000 files in which every kind of copy occurs, to try match.py on from scan to undo.

    python benchmarks/copies_folder.py PHOTOS FOLDER       PHOTOS: at least 1,200 pictures, no copies of each other

`FOLDER.csv` next to it says what each file is: `file,kind,source`.
"""

import argparse
import csv
import io
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from image_copies.data.formats import readable_formats
from image_copies.data.images import find_images

ORIGINALS = 1200
EDITS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "smaller": lambda image: image.resize((image.width * 2 // 3, image.height * 2 // 3)),
    "crop": lambda image: image.crop((image.width // 8, image.height // 8, image.width * 7 // 8, image.height * 7 // 8)),
    "mirrored": ImageOps.mirror,
    "negative": ImageOps.invert,
    "turned": lambda image: image.rotate(90, expand=True),
    "tilted": lambda image: image.rotate(8, expand=True),
    "blurred": lambda image: image.filter(ImageFilter.GaussianBlur(1.5)),
    "pale": lambda image: ImageEnhance.Contrast(image).enhance(0.6),
    "grey": lambda image: ImageOps.grayscale(image).convert("RGB"),
}
FORMATS = {"webp": "WEBP", "avif": "AVIF", "jp2": "JPEG2000", "ppm": "PPM", "jxl": "JXL", "tiff": "TIFF", "bmp": "BMP"}
FILES_PER_EDIT, FILES_PER_FORMAT = 50, 20
IDENTICAL_FILES, COLLAGES, BLANK_FILES = 80, 60, 20


def make(photos: Path, folder: Path) -> list[tuple[Path, str, str]]:
    """Make the folder.

    Args:
        photos: Folder of at least ORIGINALS pictures.
        folder: The folder to make.

    Returns:
        Each file, its kind and what it was made from.
    """
    sources = find_images(photos, naming="file").paths
    if len(sources) < ORIGINALS:
        raise SystemExit(f"{photos} holds {len(sources)} pictures; {ORIGINALS} are needed")
    readable_formats(b"\xff\x0a")  # loads the plugin, to write with it
    made: list[tuple[Path, str, str]] = []

    def put(name: str, kind: str, source: str, content: bytes) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        made.append((path, kind, source))
        return path

    originals = [
        put(f"camera/{number // 200}/IMG_{number:04d}.jpg", "original", "", sources[number].read_bytes())
        for number in range(ORIGINALS)
    ]
    rows = iter(np.random.default_rng(0).permutation(ORIGINALS).tolist() * 2)

    def picture() -> tuple[Image.Image, str]:
        path = originals[next(rows)]
        with Image.open(path) as image:
            return image.convert("RGB"), path.name

    for kind, edit in EDITS.items():
        for number in range(FILES_PER_EDIT):
            image, source = picture()
            put(f"edited/{kind}-{number:03d}.jpg", kind, source, _encode(edit(image), "JPEG", quality=70))
    for ending, form in FORMATS.items():
        for number in range(FILES_PER_FORMAT):
            image, source = picture()
            put(f"formats/{number:03d}.{ending}", f"as {form}", source, _encode(image, form))
    for number in range(COLLAGES):
        (left, one), (right, other) = picture(), picture()
        collage = Image.new("RGB", (640, 320), "white")
        collage.paste(left.resize((320, 320)), (0, 0))
        collage.paste(right.resize((320, 320)), (320, 0))
        put(f"collages/{number:03d}.jpg", "collage", f"{one} {other}", _encode(collage, "JPEG"))
    for number in range(IDENTICAL_FILES):
        path = originals[next(rows)]
        put(f"backup/{number:03d} {path.name}", "same bytes", path.name, path.read_bytes())
    for number in range(BLANK_FILES):
        blank = Image.new("RGB", (200 + number, 150), (240 + number // 2,) * 3)
        put(f"blank/{number:03d}.png", "blank", "", _encode(blank, "PNG"))
    _add_strange_files(folder, originals, put, made)
    return made


def _add_strange_files(folder: Path, originals: list[Path], put: Callable[..., Path], made: list[tuple[Path, str, str]]) -> None:
    """Add wrong endings, archives, links, names that are not UTF-8, and files that are not pictures."""
    for number in range(15):
        path = originals[number]
        put(f"strange/wrong-{number}.{'txt' if number % 2 else 'png'}", "wrong ending", path.name, path.read_bytes())
        put(f"strange/notes-{number}.txt", "text", "", b"notes")
        put(f"strange/broken-{number}.jpg", "broken", "", path.read_bytes()[:200])
    odd = os.fsdecode(b"strange/caf\xe9.jpg")
    put(odd, "name that is not UTF-8", originals[20].name, originals[20].read_bytes())
    with zipfile.ZipFile(folder / "old.zip", "w") as archive, tarfile.open(folder / "older.tar.gz", "w:gz") as tar:
        for path in originals[30:35]:
            archive.write(path, f"inside/{path.name}")
            tar.add(path, f"inside/{path.name}")
        archive.writestr("../escape.jpg", originals[36].read_bytes())
    made += [(folder / "old.zip", "archive", ""), (folder / "older.tar.gz", "archive", "")]
    (folder / "strange" / "link.jpg").symlink_to(originals[40].resolve())
    (folder / "strange" / "circle").symlink_to(folder.resolve())
    os.link(originals[41], folder / "strange" / "hard.jpg")
    made += [(folder / "strange" / name, name.split(".")[0] + " link", "") for name in ("link.jpg", "hard.jpg")]


def _encode(image: Image.Image, form: str, **options: int) -> bytes:
    target = io.BytesIO()
    image.save(target, form, **options)
    return target.getvalue()


def main() -> None:
    """Make the folder and print the number of its files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.folder.exists():
        shutil.rmtree(options.folder) if (options.folder.with_suffix(".csv")).is_file() else parser.error("FOLDER exists")
    made = make(options.photos, options.folder)
    with options.folder.with_suffix(".csv").open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        csv.writer(file).writerows([("file", "kind", "source"), *made])
    print(f"{len(made)} files in {options.folder}")


if __name__ == "__main__":
    main()
