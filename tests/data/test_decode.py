"""Any file becomes RGB pixels or an error that names the problem."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import pytest
from PIL import Image

from image_copies.data import decode
from image_copies.data.cache import cache_images
from image_copies.data.decode import as_uint8, decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import draw_picture
from image_copies.data.squares import resize_own_aspect, resize_square
from tests.pictures import encode

TOP = Path(__file__).parents[2]
PICTURE = Image.fromarray(draw_picture(np.random.default_rng(0), 96))


@pytest.mark.parametrize(
    "stored", ["L PNG", "LA PNG", "P PNG", "RGBA PNG", "1 PNG", "I;16 PNG", "CMYK JPEG", "L JPEG", "RGB WEBP"]
)
def test_every_mode_becomes_rgb(stored: str) -> None:
    mode, form = stored.split()
    deep = Image.fromarray(np.asarray(PICTURE.convert("L")).astype(np.uint16) * 257)
    image = deep if mode == "I;16" else PICTURE.convert(mode)
    pixels = decode_rgb(encode(image, form))
    assert pixels.shape == (*PICTURE.size[::-1], 3) and pixels.dtype == np.uint8
    through = {"I;16": "L", "CMYK": "RGB"}.get(mode, mode)
    expected = np.asarray(PICTURE.convert(through).convert("RGB"))
    assert np.abs(pixels.astype(int) - expected).mean() < 12  # JPEG and WebP lose a little


@pytest.mark.parametrize(
    ("drawn", "ground"), [("black", 255), ("silver", 255), ("white", 0), ((251, 252, 250), 0), ("yellow", 255)]
)
@pytest.mark.parametrize("form", ["PNG", "WEBP", "GIF"])
def test_transparency_shows_the_ground_on_which_something_is_seen(drawn: str, ground: int, form: str) -> None:
    image = Image.new("RGBA", (40, 30), (0, 0, 0, 0))
    image.paste(drawn, (10, 10, 30, 20))
    pixels = decode_rgb(encode(image, form, **({"lossless": True} if form == "WEBP" else {})))
    assert (pixels[0] == ground).all() and np.ptp(pixels) > 20
    image.paste("black", (0, 0, 5, 5))  # which is seen on white
    assert decode_rgb(encode(image, "PNG"))[-1, 0, 0] == 255


def test_what_is_transparent_throughout_is_white_and_orientation_is_applied() -> None:
    clear = Image.new("RGBA", (20, 10), (0, 0, 0, 0))
    assert (decode_rgb(encode(clear, "PNG")) == 255).all()
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = decode_rgb(encode(PICTURE, "JPEG", exif=exif))
    assert turned.shape[:2] == PICTURE.size


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize(("first", "shown"), [(0, 2), (1, 0)])
def test_an_animation_is_shown_by_its_first_frame_or_one_that_shows_something(form: str, first: int, shown: int) -> None:
    frames = [PICTURE.convert("RGB").point(lambda level, share=share: level * share // 6) for share in (first, 3, 6, 4)]
    content = encode(frames[0], form, save_all=True, append_images=frames[1:], duration=100)
    found = decode_rgb(content)
    assert np.abs(found.astype(int) - np.asarray(frames[shown])).mean() < 8
    if form in ("GIF", "TIFF") and not first:
        assert decode_rgb(content[: len(content) * 3 // 4]).std() > 0  # damaged behind what is shown


def test_reduced_decoding_keeps_at_least_the_requested_short_side() -> None:
    large = encode(PICTURE.resize((1600, 1000)), "JPEG")
    small = decode_rgb(large, short_side=160)
    assert 160 <= min(small.shape[:2]) < 1000
    assert decode_rgb(large, short_side=5000).shape == (1000, 1600, 3)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"no image at all", "is not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "is not an image"),
        (encode(PICTURE, "JPEG")[:900], "is damaged"),
        (encode(PICTURE, "PNG")[:900], "is damaged"),
        (encode(Image.new("L", (4, 300)), "PNG"), "short side must be at least 8"),
        (encode(Image.new("1", (12_000, 12_000)), "PNG"), "larger than 100,000,000 pixels"),
    ],
)
def test_each_problem_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "odd.jpg"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=problem) as caught:
        decode_rgb(path)
    assert caught.value.path == path


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16", "F"])
def test_a_large_image_converted_in_strips_is_the_same(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form = "TIFF" if mode in ("I", "F") else "PNG"
    if mode in ("I", "I;16", "F"):
        values = np.asarray(PICTURE.convert("L")).astype({"I": np.int32, "I;16": np.uint16, "F": np.float32}[mode])
        values[-1] = 40_000  # the strip at the bottom makes white what it is
        image = Image.fromarray(values)
    else:
        image = PICTURE.convert("RGBA").convert(mode)
    if mode in ("LA", "RGBA"):
        image.putalpha(Image.linear_gradient("L").resize(image.size))
    content = encode(image, form, **({"transparency": 3} if mode == "P" else {}))
    whole = decode_rgb(content)
    monkeypatch.setattr(decode, "PIXELS_PER_STRIP", 10 * PICTURE.width)
    assert np.array_equal(decode_rgb(content), whole) and whole.std() > 0


PEAK = """
import sys
from pathlib import Path
from image_copies.data.decode import decode_rgb
def memory(key):  # ru_maxrss begins with the peak of the process that started this one
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
decode_rgb(Path(sys.argv[1]))
print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize("mode", ["I;16", "RGBA"])
def test_memory_for_a_large_image_is_bounded(tmp_path: Path, mode: str) -> None:
    """8 bytes per pixel and one strip; a 16-bit image once took over 30 bytes per pixel."""
    side = 5000
    image = Image.fromarray(np.full((side, side), 1000, np.uint16)) if mode == "I;16" else Image.new(mode, (side, side), "red")
    image.save(tmp_path / "large.png", compress_level=1)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path / "large.png")], capture_output=True, text=True, check=True, cwd=TOP
    )
    assert 3 * side**2 < int(done.stdout) * 1024 < 8 * side**2 + 24 * decode.PIXELS_PER_STRIP + 2**25


def test_formats_whose_decoders_take_more_memory_have_a_lower_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MAX_PIXELS_BY_FORMAT", {"JPEG2000": 1000})
    assert decode_rgb(encode(PICTURE, "PNG")).shape[2] == 3
    with pytest.raises(ImageError, match="larger than 1,000 pixels"):
        decode_rgb(encode(PICTURE, "JPEG2000"))


def test_a_jpeg_of_thousands_of_scans_is_refused() -> None:
    """150 kB of them kept a processor busy for a minute."""
    whole = encode(PICTURE.resize((1000, 1000)), "JPEG", progressive=True)
    last = whole[whole.rindex(b"\xff\xda") : -2]
    assert decode_rgb(whole).shape == (1000, 1000, 3)
    with pytest.raises(ImageError, match=r"in 5,0\d\d scans, too many to decode"):
        decode_rgb(whole[:-2] + 5000 * last[:40] + b"\xff\xd9")


def test_a_file_over_the_limit_is_not_read_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MAX_FILE_BYTES", 2**20)
    with (tmp_path / "a.jpg").open("wb") as file:
        file.truncate(2**20 + 2)
    with pytest.raises(ImageError, match="is larger than 1 MiB"):
        decode_rgb(tmp_path / "a.jpg")


def test_values_that_are_not_finite_are_black_and_a_picture_without_others_is_none(tmp_path: Path) -> None:
    values = np.full((16, 16), 200, np.float32)
    values[3, 4] = np.nan
    Image.fromarray(values).save(tmp_path / "a.tif")
    pixels = decode_rgb(tmp_path / "a.tif")
    assert not pixels[3, 4].any() and (pixels[0] == 200).all()
    Image.fromarray(np.full((16, 16), np.nan, np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ImageError, match="no value is finite"):
        decode_rgb(tmp_path / "a.tif")


@pytest.mark.parametrize(
    ("largest", "kind", "white"),
    [
        *((0.5, np.float32, 1.0), (1.0, np.float32, 1.0), (200.0, np.float32, 255.0), (40_000.0, np.float32, 65_535.0)),
        *((90, np.uint16, 255), (1000, np.uint16, 1023), (4095, np.uint16, 4095), (4096, np.uint16, 8191)),
        *((65_535, np.uint16, 65_535), (10**6, np.int32, 2**20 - 1)),
    ],
)
def test_white_is_the_first_that_no_value_exceeds(largest: float, kind: type[np.generic], white: float) -> None:
    values = np.linspace(0, largest, 256).reshape(16, 16).astype(kind)
    content = encode(Image.fromarray(values), "TIFF")
    assert np.abs(decode_rgb(content)[..., 0] - values / white * 255).max() <= 0.51


def test_formats_that_start_programs_and_undecodable_bytes_are_refused() -> None:
    with pytest.raises(ImageError, match="is not an image"):
        decode_rgb(encode(PICTURE, "EPS"))
    pixels = np.zeros((2, 2, 3), np.uint8)
    assert as_uint8(pixels) is pixels
    with pytest.raises(ValueError, match="cannot decode"):
        as_uint8(cv2.imdecode(np.arange(20, dtype=np.uint8), cv2.IMREAD_COLOR_RGB))


def test_the_cache_is_made_once_and_follows_its_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PICTURE.save(tmp_path / "a.jpg")
    images = ImageSet(["a"], [tmp_path / "a.jpg"])
    first = cache_images(images, 32, tmp_path / "cache").pixels[0].copy()
    assert len(list((tmp_path / "cache").glob("*.pixels"))) == 1
    monkeypatch.setattr(decode, "MIN_SIDE_PIXELS", 10**6)  # decoding again would fail
    assert (cache_images(images, 32, tmp_path / "cache").pixels[0] == first).all()
    monkeypatch.undo()
    PICTURE.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "a.jpg", quality=30)
    assert not (cache_images(images, 32, tmp_path / "cache").pixels[0] == first).all()


@pytest.mark.parametrize(
    ("width", "height", "expected"), [(90, 90, (48, 48)), (120, 60, (33, 67)), (40, 62, (59, 38)), (400, 40, (32, 72))]
)
def test_images_keep_their_aspect_and_the_area_of_the_square(width: int, height: int, expected: tuple[int, int]) -> None:
    resized = resize_own_aspect(np.zeros((height, width, 3), np.uint8), 48)
    assert resized.shape[:2] == expected and expected[0] * expected[1] <= 48**2


@pytest.mark.parametrize("form", ["pixels", "jpeg"])
def test_the_cache_keeps_aspects_in_no_more_space_than_squares(tmp_path: Path, form: Literal["pixels", "jpeg"]) -> None:
    shapes = {"a": (64, 96), "c": (96, 64), "d": (50, 50)}
    for name, shape in shapes.items():
        PICTURE.resize(shape).save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_bytes(b"x")
    images = find_images(tmp_path)
    for _ in range(2):  # written, then mapped
        own = cache_images(images, 48, tmp_path / "own", form)
        assert own.readable_rows() == [0, 2, 3] and list(own.problems) == ["b"]
        for row in own.readable_rows():
            pixels = own.pixels[row]
            assert pixels.shape[1] / pixels.shape[0] == pytest.approx(np.divide(*shapes[images.ids[row]]), rel=0.05)
            squashed = resize_square(decode_rgb(images.paths[row]), 48).astype(int)
            assert np.abs(resize_square(pixels, 48) - squashed).mean() < 8
    if form == "pixels":
        assert sum(path.stat().st_size for path in (tmp_path / "own").glob("*.pixels")) <= 3 * 3 * 48**2


def test_hostile_files(copysets: Path) -> None:
    expected_failures = {"corrupt.jpg"}
    for path in sorted((copysets / "hostile").iterdir()):
        if path.name in expected_failures:
            with pytest.raises(ImageError):
                decode_rgb(path)
        else:
            pixels = decode_rgb(path, short_side=64)
            assert pixels.shape[2] == 3 and pixels.std() > 0, path.name
