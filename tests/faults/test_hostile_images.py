"""Damaged, odd and malicious pictures by the thousand: no crash, no hang, bounded memory, and nobody else's vector changes."""

import os
import random
import signal
import struct
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.formats import readable_formats
from image_copies.data.procedural import draw_picture
from image_copies.matching.index.store import open_store, stored_files, vectors_by_digest
from image_copies.pipeline.match import main as match
from image_copies.pipeline.steps.embed import embed_folder
from image_copies.submissions.vectors.files import read_vectors
from tests.faults.harness import Ledger, memory, mutate
from tests.pictures import encode

SEED = 18
MUTATED = 2200  # files that are valid ones changed; the crafted ones come on top
LONGEST = 5.0  # seconds of processor time for one file: on a busy machine the clock says nothing
HANGS = 120  # seconds of the clock
MOST_MEMORY = 1.75  # GiB that decoding adds to a worker, at most
FORMS: dict[str, tuple[str, dict[str, Any]]] = {  # ending → format and options
    ".jpg": ("JPEG", {"quality": 80}),
    ".jpeg": ("JPEG", {"quality": 60, "progressive": True}),
    ".png": ("PNG", {}),
    ".apng": ("PNG", {"save_all": True}),
    ".webp": ("WEBP", {}),
    ".gif": ("GIF", {}),
    ".bmp": ("BMP", {}),
    ".tif": ("TIFF", {"compression": "tiff_lzw"}),
    ".tiff": ("TIFF", {"compression": "jpeg"}),
    ".avif": ("AVIF", {"speed": 10}),
    ".jp2": ("JPEG2000", {}),
    ".ppm": ("PPM", {}),
    ".qoi": ("QOI", {}),
    ".jxl": ("JXL", {"effort": 1}),
}
readable_formats(b"\xff\x0a")  # registers the writer of JPEG XL


def draw(seed: int, side: int = 96) -> Image.Image:
    return Image.fromarray(draw_picture(np.random.default_rng(seed), side)).resize((side, side))


def valid_files() -> dict[str, list[bytes]]:
    """By ending: several whole files of every format that the project decodes."""
    pictures = [draw(seed) for seed in range(3)]
    files = {ending: [encode(each, form, **options) for each in pictures] for ending, (form, options) in FORMS.items()}
    heic = sorted((Path(__file__).parents[1] / "data" / "pictures").glob("drawn-*.heic"))  # what decodes it cannot write it
    files[".heic"] = [path.read_bytes() for path in heic]
    grey = pictures[0].convert("L")
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    files[".png"] += [encode(deep, "PNG"), encode(pictures[1].convert("P"), "PNG"), encode(pictures[2].convert("RGBA"), "PNG")]
    files[".tif"] += [encode(Image.fromarray(np.asarray(grey, np.float32)), "TIFF"), encode(deep, "TIFF")]
    files[".jpg"] += [encode(pictures[0].convert("CMYK"), "JPEG"), encode(grey, "JPEG")]
    for ending in (".gif", ".webp", ".apng"):
        form = FORMS[ending][0]
        files[ending].append(encode(pictures[0], form, save_all=True, append_images=pictures[1:] * 4, duration=20))
    return files


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _png(width: int, height: int, pixels: bytes, depth: int = 8, colour: int = 2, before: bytes = b"") -> bytes:
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + before + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _scans(side: int, count: int) -> bytes:
    """A progressive JPEG whose last scan stands there again and again: each goes over the whole picture."""
    content = encode(Image.new("L", (side, side), 90), "JPEG", progressive=True, quality=50)
    last = content[content.rindex(b"\xff\xda") : -2]
    return content[:-2] + last * count + b"\xff\xd9"


def _exif(value: object, kind: int = 3, count: int = 1) -> bytes:
    """A JPEG whose orientation has any value, type and number of values."""
    entry = struct.pack("<HHI", 0x0112, kind, count & 0xFFFFFFFF) + struct.pack("<I", int(str(value)) & 0xFFFFFFFF)
    tiff = b"II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 8)  # the next directory is this one again
    plain = encode(draw(4), "JPEG")
    body = b"Exif\0\0" + tiff
    return plain[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + plain[2:]


def crafted_files() -> dict[str, bytes]:
    """Files made to harm, by name."""
    files: dict[str, bytes] = {"empty.jpg": b"", "nul.png": bytes(5000), "text.jpg": b"GET / HTTP/1.1\r\n" * 9}
    one = Image.new("RGB", (1, 1), "red")
    for ending, (form, options) in FORMS.items():
        files[f"one-pixel{ending}"] = encode(one, form, **options) if form != "AVIF" else b"\0\0\0\x1cftyp"
    for width, height in ((65_000, 1), (1, 65_000), (65_000, 8), (65_535, 9)):
        files[f"{width}x{height}.png"] = encode(Image.new("L", (width, height), 7), "PNG")
        files[f"{width}x{height}.gif"] = encode(Image.new("L", (width, height), 7), "GIF")
        files[f"{width}x{height}.tif"] = encode(Image.new("L", (width, height), 7), "TIFF", compression="tiff_adobe_deflate")
        if max(width, height) <= 65_500:
            files[f"{width}x{height}.jpg"] = encode(Image.new("L", (width, height), 7), "JPEG")
    for side in (0, 2**31 - 1, 2**32 - 1, 50_000):
        files[f"says-{side}.png"] = _png(side, side, zlib.compress(b"\0" * 100))
        files[f"says-{side}.bmp"] = b"BM" + struct.pack(
            "<IHHIIiiHHIIiiII", 90, 0, 0, 54, 40, side & 0x7FFFFFFF, -9, 1, 24, *[0] * 6
        )
        files[f"says-{side}.ppm"] = b"P6 %d %d 255\n" % (side, side) + bytes(99)
        files[f"says-{side}.qoi"] = b"qoif" + struct.pack(">IIBB", side, side, 3, 0) + bytes(40)
    files["digits.ppm"] = b"P6 " + b"9" * 5000 + b" 9 255\n" + bytes(99)
    files["comment.ppm"] = b"P6 #" + b"c" * 200_000
    files["screen.gif"] = (
        b"GIF89a"
        + struct.pack("<HHBBB", 65_535, 65_535, 0x80, 0, 0)
        + bytes(6)
        + b","
        + struct.pack("<HHHHBB", 0, 0, 65_535, 65_535, 0, 2)
        + b"\x02\x4c\x01\0;"
    )
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "a" * 50_000_000, zip=True)
    files["text-bomb.png"] = encode(draw(5), "PNG", pnginfo=text)
    files["profile-bomb.png"] = _png(
        32, 32, zlib.compress(bytes(32 * 97)), before=_chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(50_000_000), 9))
    )
    files["too-many-pixels.png"] = _png(32, 32, zlib.compress(bytes(60_000_000), 9))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for name, icc in {"whole": profile, "cut": profile[:90], "noise": random.Random(SEED).randbytes(3000)}.items():
        for ending in (".jpg", ".png", ".webp", ".tif"):
            files[f"profile-{name}{ending}"] = encode(draw(6), FORMS[ending][0], icc_profile=icc)
    for value in (0, 1, 5, 8, 9, 255, 65_535):
        files[f"orientation-{value}.jpg"] = _exif(value)
    for kind, count in ((2, 4), (5, 1), (12, 1), (3, 2**31), (2, 2**32 - 1), (99, 7)):
        files[f"orientation-type-{kind}-{count}.jpg"] = _exif(6, kind, count)
    for name, special in {"nan": np.nan, "inf": np.inf, "minus-inf": -np.inf, "huge": 3e38, "tiny": 1e-40}.items():
        values = np.full((40, 40), 100, np.float32)
        values[::3] = special
        files[f"{name}.tif"] = encode(Image.fromarray(values), "TIFF")
        files[f"{name}.pfm"] = b"Pf\n40 40\n-1.0\n" + values.tobytes()
        files[f"all-{name}.tif"] = encode(Image.fromarray(np.full((40, 40), special, np.float32)), "TIFF")
    frames = [draw(seed, 64) for seed in range(20)] * 10
    for ending in (".gif", ".webp", ".png", ".tif"):
        files[f"frames{ending}"] = encode(frames[0], FORMS[ending][0], save_all=True, append_images=frames[1:])
    files["scans.jpg"] = _scans(2000, 2000)
    files["svg.png"] = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    files["postscript.jpg"] = encode(draw(7), "EPS")
    side = 9_900
    for ending in (".png", ".jpg", ".gif", ".tif", ".webp", ".jxl", ".avif"):
        form, options = FORMS[ending]
        files[f"99-megapixels{ending}"] = encode(Image.new("RGB", (side, side), (200, 30, 30)), form, **options)
    files["50-megapixels.jp2"] = encode(Image.new("RGB", (7000, 7000), (200, 30, 30)), "JPEG2000")
    deep = Image.fromarray(np.full((side, side), 1000, np.uint16))
    files["99-megapixels-deep.png"] = encode(deep, "PNG", compress_level=1)
    files["200-megapixels.png"] = encode(Image.new("1", (20_000, 10_000)), "PNG")
    files["200-megapixels.gif"] = encode(Image.new("L", (20_000, 10_000)), "GIF")
    files["scans-large.jpg"] = _scans(9_900, 1000)
    return files


def _named(group: str, name: str) -> str:
    """Unique without its ending, as ids are."""
    return f"{group}-{name.replace('.', '-')}{Path(name).suffix}"


def write_hostile(folder: Path, mutated: int, crafted: dict[str, bytes], given: Path | None = None) -> list[Path]:
    """Write the files, always the same; a tenth of the mutated ones get a wrong ending."""
    rng = random.Random(SEED)
    folder.mkdir(parents=True)
    valid = valid_files()
    for name, content in crafted.items():
        (folder / _named("crafted", name)).write_bytes(content)
    everything = [content for contents in valid.values() for content in contents]
    for number in range(mutated):
        ending = rng.choice(list(valid))
        content = mutate([*valid[ending], rng.choice(everything)], rng)
        (folder / f"mutated-{number:04d}{rng.choice(list(valid)) if rng.random() < 0.1 else ending}").write_bytes(content)
    for path in sorted(given.iterdir()) if given else ():
        (folder / _named("given", path.name)).write_bytes(path.read_bytes())
    return sorted(folder.iterdir())


def test_a_few_mutated_pictures_of_every_format() -> None:
    """The short form of the thousands."""
    rng = random.Random(SEED)
    valid = valid_files()
    everything = [content for contents in valid.values() for content in contents]
    outcomes: Counter[str] = Counter()
    for ending, contents in valid.items():
        for content in contents[:1] + [mutate([contents[0], rng.choice(everything)], rng) for _ in range(8)]:
            try:
                outcomes["pixels"] += decode_rgb(content).shape[2] == 3
            except ImageError:
                outcomes["refused"] += 1
        assert outcomes["pixels"], ending
    assert sum(outcomes.values()) == 9 * len(valid) and outcomes["refused"] > 20


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pictures that can be read; their names stand before, between and behind those of the hostile ones."""
    folder = tmp_path_factory.mktemp("good") / "files"
    folder.mkdir()
    for number in range(20):
        draw(number, 64).save(folder / f"{'agmz'[number % 4]}-{number:02d}.png")
    return folder


def mixed(good: Path, hostile: list[Path], folder: Path) -> Path:
    """Links to all of them in one folder."""
    folder.mkdir()
    for path in [*good.iterdir(), *hostile]:
        (folder / path.name).symlink_to(path)
    return folder


def check_embedding(good: Path, hostile: list[Path], checkpoint: Path, folder: Path, workers: int) -> int:
    """Step 02: the good pictures' vectors are the same bytes, every bad one is listed with its reason; returns how many are."""
    embed_folder(checkpoint, good, folder / "alone.h5", workers)
    embed_folder(checkpoint, mixed(good, hostile, folder / "mixed"), folder / "mixed.h5", workers)
    alone, among = read_vectors(folder / "alone.h5"), read_vectors(folder / "mixed.h5")
    assert len(among) == len(alone) + len(hostile)
    assert among.rows(alone.ids).vectors.tobytes() == alone.vectors.tobytes()
    listed = dict(line.split("\t") for line in (folder / "mixed.unreadable.txt").read_text().splitlines())
    bad = {image_id for image_id, marked in zip(among.ids, among.unreadable, strict=True) if marked}
    assert {Path(name).stem for name in listed} == bad and all(listed.values()) and "can be read now" not in listed.values()
    return len(bad)


def check_index(good: Path, hostile: list[Path], checkpoint: Path, folder: Path) -> int:
    """match.py add: the same, in a kept index; returns how many are listed."""
    vectors: dict[str, dict[str, bytes | None]] = {}
    for name, source in (("alone", good), ("mixed", mixed(good, hostile, folder / "pictures"))):
        arguments = ["add", str(source), "--checkpoint", str(checkpoint), "--index", str(folder / name), "--quiet"]
        assert match(arguments) == 0
        with open_store(folder / name) as store:
            files = stored_files(store)
            known = vectors_by_digest(store, files.values())
            vectors[name] = {path.name: None if (v := known[d]) is None else v.tobytes() for path, d in files.items()}
    assert vectors["alone"].items() <= vectors["mixed"].items() and None not in vectors["alone"].values()
    listed = [line.split("\t") for line in (folder / "mixed" / "unreadable.txt").read_text().splitlines()]
    assert {Path(name).name for name, _ in listed} == {name for name, vector in vectors["mixed"].items() if vector is None}
    assert all(reason and reason != "can be read now" for _, reason in listed)
    return len(listed)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Small ones for the quick suite."""
    return write_hostile(
        tmp_path_factory.mktemp("few") / "files", 30, {"empty.jpg": b"", "nul.png": bytes(5000), "six.jpg": _exif(6)}
    )


def test_broken_pictures_change_no_other_vector(good: Path, few: list[Path], checkpoint: Path, tmp_path: Path) -> None:
    assert check_embedding(good, few, checkpoint, tmp_path, workers=0) > 10
    (tmp_path / "index").mkdir()
    assert check_index(good, few, checkpoint, tmp_path / "index") > 10


@pytest.mark.faults
def test_thousands_of_hostile_pictures_change_no_other_vector(
    good: Path, hostile: list[Path], checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = check_embedding(good, hostile, checkpoint, tmp_path, workers=2)
    (tmp_path / "index").mkdir()
    listed = check_index(good, hostile, checkpoint, tmp_path / "index")
    with capsys.disabled():
        print(f"\nstep 02 lists {bad} of {len(hostile)} hostile pictures, match.py add {listed}; 20 others: the same bytes")
    assert bad == listed > 500


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    given = os.environ.get("COPYSETS")
    return write_hostile(
        tmp_path_factory.mktemp("hostile") / "files", MUTATED, crafted_files(), Path(given, "hostile") if given else None
    )


@pytest.mark.faults
def test_thousands_of_hostile_pictures_give_pixels_or_a_reason(hostile: list[Path], ledger: Ledger) -> None:
    """A decoder that hangs is ended by a signal, and one that crashes ends the tests: CURRENT.txt names the file."""
    started, failures, refused, largest = time.monotonic(), list[str](), 0, 0.0
    for path in hostile:
        (hostile[0].parents[1] / "CURRENT.txt").write_text(path.name)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before, begun = memory("VmRSS"), time.process_time()
        signal.alarm(HANGS)
        try:
            decode_rgb(path, short_side=64)
        except ImageError as error:
            refused += bool(error.problem)
        signal.alarm(0)
        seconds, taken = time.process_time() - begun, memory("VmHWM") - before
        largest = max(largest, taken)
        if seconds > LONGEST or taken > MOST_MEMORY:
            failures.append(f"{path.name}: {seconds:.1f} s, {taken:.2f} GiB")
    ledger(f"hostile pictures, {refused} refused, at most {largest:.2f} GiB", len(hostile), failures, time.monotonic() - started)
    assert len(hostile) >= 2000 and refused > 500 and largest > 0.1  # it was measured
