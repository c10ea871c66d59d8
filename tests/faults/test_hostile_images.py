"""Damaged, odd and malicious pictures by the thousand: no crash, no hang, bounded memory, and nobody else's vector changes."""

import io
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image, ImageCms, PngImagePlugin

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.formats import readable_formats
from image_copies.data.procedural import draw_picture
from image_copies.matching.explorer.service import service_router
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.index.store import open_known_store, stored_files, vectors_by_digest
from image_copies.matching.matches import Rule
from image_copies.matching.web.app import make_app
from image_copies.pipeline.match import main as match
from image_copies.pipeline.steps.embed import embed_folder
from image_copies.submissions.vectors.files import read_vectors
from tests.services import open_service

TOP = Path(__file__).parents[2]
SEED = 18
MUTATED = 2200  # files that are valid ones changed; the crafted ones come on top
LONGEST = 5.0  # seconds of processor time for one file: on a busy machine the clock says nothing
HANGS = 120.0  # seconds of the clock after which a worker is taken to hang
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
HEIC = sorted((TOP / "tests/data/pictures").glob("drawn-*.heic"))  # the decoder that is required cannot write them
readable_formats(b"\xff\x0a")  # registers the writer of JPEG XL


def picture(seed: int, side: int = 96) -> Image.Image:
    return Image.fromarray(draw_picture(np.random.default_rng(seed), side)).resize((side, side))


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, form, **options)
    return target.getvalue()


def valid_files() -> dict[str, list[bytes]]:
    """By ending: several whole files of every format that the project decodes."""
    pictures = [picture(seed) for seed in range(3)]
    files = {ending: [encoded(each, form, **options) for each in pictures] for ending, (form, options) in FORMS.items()}
    files[".heic"] = [path.read_bytes() for path in HEIC]
    grey = pictures[0].convert("L")
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    files[".png"] += [encoded(deep, "PNG"), encoded(pictures[1].convert("P"), "PNG"), encoded(pictures[2].convert("RGBA"), "PNG")]
    files[".tif"] += [encoded(Image.fromarray(np.asarray(grey, np.float32)), "TIFF"), encoded(deep, "TIFF")]
    files[".jpg"] += [encoded(pictures[0].convert("CMYK"), "JPEG"), encoded(grey, "JPEG")]
    for ending in (".gif", ".webp", ".apng"):
        form = FORMS[ending][0]
        files[ending].append(encoded(pictures[0], form, save_all=True, append_images=pictures[1:] * 4, duration=20))
    return files


def mutate(content: bytes, rng: random.Random, other: bytes) -> bytes:
    """One to three damages, of those that disks, networks and attackers do."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        place, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 16, 200))
        head = rng.randrange(min(len(data), 160) + 1)  # sizes and counts stand at the beginning
        match rng.randrange(9):
            case 0:
                del data[place:]
            case 1:
                for _ in range(length):
                    if data:
                        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 2:
                data[place : place + length] = rng.randbytes(length)
            case 3:
                data[place : place + length] = b""
            case 4:
                data[place:place] = data[head : head + length]
            case 5:
                data[head : head + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\xff\xff"))
            case 6:
                data[place:] = other[rng.randrange(len(other) + 1) :]
            case 7:
                data[place : place + length] = bytes(length)
            case _:
                data += other
    return bytes(data)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _png(width: int, height: int, pixels: bytes, depth: int = 8, colour: int = 2, before: bytes = b"") -> bytes:
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + before + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _scans(side: int, count: int) -> bytes:
    """A progressive JPEG whose last scan stands there again and again: each goes over the whole picture."""
    content = encoded(Image.new("L", (side, side), 90), "JPEG", progressive=True, quality=50)
    last = content[content.rindex(b"\xff\xda") : -2]
    return content[:-2] + last * count + b"\xff\xd9"


def _exif(value: object, kind: int = 3, count: int = 1) -> bytes:
    """A JPEG whose orientation has any value, type and number of values."""
    entry = struct.pack("<HHI", 0x0112, kind, count & 0xFFFFFFFF) + struct.pack("<I", int(str(value)) & 0xFFFFFFFF)
    tiff = b"II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 8)  # the next directory is this one again
    plain = encoded(picture(4), "JPEG")
    body = b"Exif\0\0" + tiff
    return plain[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + plain[2:]


def crafted_files() -> dict[str, bytes]:
    """Files made to harm, by name."""
    files: dict[str, bytes] = {"empty.jpg": b"", "nul.png": bytes(5000), "text.jpg": b"GET / HTTP/1.1\r\n" * 9}
    one = Image.new("RGB", (1, 1), "red")
    for ending, (form, options) in FORMS.items():
        files[f"one-pixel{ending}"] = encoded(one, form, **options) if form != "AVIF" else b"\0\0\0\x1cftyp"
    for width, height in ((65_000, 1), (1, 65_000), (65_000, 8), (65_535, 9)):
        files[f"{width}x{height}.png"] = encoded(Image.new("L", (width, height), 7), "PNG")
        files[f"{width}x{height}.gif"] = encoded(Image.new("L", (width, height), 7), "GIF")
        files[f"{width}x{height}.tif"] = encoded(Image.new("L", (width, height), 7), "TIFF", compression="tiff_adobe_deflate")
        if max(width, height) <= 65_500:
            files[f"{width}x{height}.jpg"] = encoded(Image.new("L", (width, height), 7), "JPEG")
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
    files["text-bomb.png"] = encoded(picture(5), "PNG", pnginfo=text)
    files["profile-bomb.png"] = _png(
        32, 32, zlib.compress(bytes(32 * 97)), before=_chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(50_000_000), 9))
    )
    files["too-many-pixels.png"] = _png(32, 32, zlib.compress(bytes(60_000_000), 9))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for name, icc in {"whole": profile, "cut": profile[:90], "noise": random.Random(SEED).randbytes(3000)}.items():
        for ending in (".jpg", ".png", ".webp", ".tif"):
            files[f"profile-{name}{ending}"] = encoded(picture(6), FORMS[ending][0], icc_profile=icc)
    for value in (0, 1, 5, 8, 9, 255, 65_535):
        files[f"orientation-{value}.jpg"] = _exif(value)
    for kind, count in ((2, 4), (5, 1), (12, 1), (3, 2**31), (2, 2**32 - 1), (99, 7)):
        files[f"orientation-type-{kind}-{count}.jpg"] = _exif(6, kind, count)
    for name, special in {"nan": np.nan, "inf": np.inf, "minus-inf": -np.inf, "huge": 3e38, "tiny": 1e-40}.items():
        values = np.full((40, 40), 100, np.float32)
        values[::3] = special
        files[f"{name}.tif"] = encoded(Image.fromarray(values), "TIFF")
        files[f"{name}.pfm"] = b"Pf\n40 40\n-1.0\n" + values.tobytes()
        files[f"all-{name}.tif"] = encoded(Image.fromarray(np.full((40, 40), special, np.float32)), "TIFF")
    frames = [picture(seed, 64) for seed in range(20)] * 10
    for ending in (".gif", ".webp", ".png", ".tif"):
        files[f"frames{ending}"] = encoded(frames[0], FORMS[ending][0], save_all=True, append_images=frames[1:])
    files["scans.jpg"] = _scans(2000, 2000)
    files["svg.png"] = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    files["postscript.jpg"] = encoded(picture(7), "EPS")
    side = 9_900
    for ending in (".png", ".jpg", ".gif", ".tif", ".webp", ".jxl", ".avif"):
        form, options = FORMS[ending]
        files[f"99-megapixels{ending}"] = encoded(Image.new("RGB", (side, side), (200, 30, 30)), form, **options)
    files["50-megapixels.jp2"] = encoded(Image.new("RGB", (7000, 7000), (200, 30, 30)), "JPEG2000")
    deep = Image.fromarray(np.full((side, side), 1000, np.uint16))
    files["99-megapixels-deep.png"] = encoded(deep, "PNG", compress_level=1)
    files["200-megapixels.png"] = encoded(Image.new("1", (20_000, 10_000)), "PNG")
    files["200-megapixels.gif"] = encoded(Image.new("L", (20_000, 10_000)), "GIF")
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
        content = mutate(rng.choice(valid[ending]), rng, rng.choice(everything))
        (folder / f"mutated-{number:04d}{rng.choice(list(valid)) if rng.random() < 0.1 else ending}").write_bytes(content)
    for path in sorted(given.iterdir()) if given else ():
        (folder / _named("given", path.name)).write_bytes(path.read_bytes())
    return sorted(folder.iterdir())


WORKER = """
import hashlib, json, sys, time
from pathlib import Path
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.formats import readable_formats
def memory(key):  # the peak that the system reports elsewhere, ru_maxrss, is that of the process that started this one
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 2**20
for line in sys.stdin:
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    started, before = time.process_time(), memory("VmRSS")
    try:
        outcome = hashlib.sha256(decode_rgb(Path(line[:-1]), short_side=64).tobytes()).hexdigest()
    except ImageError as error:
        outcome = "refused: " + error.problem
    except BaseException as error:
        outcome = "WRONG: " + repr(error)
    print(json.dumps([outcome, time.process_time() - started, memory("VmHWM") - before]), flush=True)
"""


@dataclass(frozen=True)
class Decoded:
    """What a worker made of a file: a digest or a reason, seconds of its processor, GiB that it took more meanwhile."""

    outcome: str
    seconds: float
    memory: float


def decode_apart(paths: list[Path]) -> Iterator[tuple[Path, Decoded]]:
    """Decode in a process of its own that may crash or hang; then the file is named and the next worker goes on."""
    worker: subprocess.Popen[str] | None = None
    for path in paths:
        worker = worker or subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TOP
        )
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(f"{path}\n")
        worker.stdin.flush()
        answered = select.select([worker.stdout], [], [], HANGS)[0]
        line = worker.stdout.readline() if answered else ""
        if line:
            yield path, Decoded(*json.loads(line))
        else:
            worker.kill()
            worker.communicate()
            yield path, Decoded(f"WRONG: worker {'died' if answered else 'hangs'}, {worker.returncode}", HANGS, 0)
            worker = None
    if worker is not None:
        worker.communicate()


def test_a_few_mutated_pictures_of_every_format() -> None:
    """The short form of the thousands."""
    rng = random.Random(SEED)
    valid = valid_files()
    everything = [content for contents in valid.values() for content in contents]
    outcomes: Counter[str] = Counter()
    for ending, contents in valid.items():
        for content in contents[:1] + [mutate(contents[0], rng, rng.choice(everything)) for _ in range(4)]:
            try:
                outcomes["pixels"] += decode_rgb(content).shape[2] == 3
            except ImageError:
                outcomes["refused"] += 1
        assert outcomes["pixels"], ending
    assert sum(outcomes.values()) == 5 * len(valid) and outcomes["refused"] > 10


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty pictures that can be read; their names stand before, between and behind those of the hostile ones."""
    folder = tmp_path_factory.mktemp("good") / "files"
    folder.mkdir()
    for number in range(50):
        picture(number, 64).save(folder / f"{'agmz'[number % 4]}-{number:02d}.png")
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
        with open_known_store(folder / name) as store:
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
        print(f"\nstep 02 lists {bad} of {len(hostile)} hostile pictures, match.py add {listed}; 50 others: the same bytes")
    assert bad == listed > 500


@pytest.mark.faults
def test_thousands_of_hostile_uploads_are_answered(
    good: Path, hostile: list[Path], checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pictures").symlink_to(good)
    service = open_service(tmp_path, checkpoint_extractor(checkpoint), Rule(-1.0, None, 0.01, 12))
    client = TestClient(make_app(service_router(service)), base_url="http://127.0.0.1", raise_server_exceptions=False)
    answers: Counter[int] = Counter()
    for path in hostile:
        sent = client.post("/api/matches", content=path.read_bytes(), headers={"content-type": "application/octet-stream"})
        answers[sent.status_code] += 1
        assert sent.status_code in (200, 400, 413), path.name
        assert isinstance(sent.json()["matches" if sent.status_code == 200 else "message"], (list, str)), path.name
    service.close()
    with capsys.disabled():
        print(f"\n{len(hostile)} hostile uploads: {dict(answers)}")
    assert answers[200] and answers[400]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    given = os.environ.get("COPYSETS")
    return write_hostile(
        tmp_path_factory.mktemp("hostile") / "files", MUTATED, crafted_files(), Path(given, "hostile") if given else None
    )


@pytest.mark.faults
def test_thousands_of_hostile_pictures_give_pixels_or_a_reason(hostile: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    decoded = dict(decode_apart(hostile))
    wrong = {path.name: found.outcome for path, found in decoded.items() if found.outcome.startswith("WRONG")}
    slow = {path.name: round(found.seconds, 1) for path, found in decoded.items() if found.seconds > LONGEST}
    largest = max(decoded.items(), key=lambda item: item[1].memory)
    refused = sum(found.outcome.startswith("refused") for found in decoded.values())
    longest = max(decoded.items(), key=lambda item: item[1].seconds)
    with capsys.disabled():
        print(
            f"\n{len(decoded)} hostile pictures in {time.monotonic() - started:.0f} s: {refused} refused with a reason, "
            f"{len(decoded) - refused - len(wrong)} decoded, {len(wrong)} wrong, {len(slow)} slow; the longest took "
            f"{longest[1].seconds:.1f} s of the processor ({longest[0].name}), the largest took {largest[1].memory:.2f} GiB "
            f"({largest[0].name})"
        )
    assert len(decoded) >= 2000 and wrong == {} and slow == {}
    assert 0.1 < largest[1].memory < MOST_MEMORY  # it was measured
