"""Two files are the same only if all that they hold agrees, not their first frame as 8-bit RGB on white alone."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms, ImageDraw, ImageFont, ImageOps

from image_copies.data.procedural.pictures import draw_picture
from image_copies.matching.verification.contents import Contents, list_missing, read_contents
from image_copies.matching.verification.judgement import Judgement
from image_copies.matching.verification.pairs import KnownPair, PairJudge

Make = Callable[[], bytes]


def draw(seed: int = 3, side: int = 320) -> Image.Image:
    return Image.fromarray(draw_picture(np.random.default_rng(seed), side)).resize((side, side * 3 // 4))


def encode(picture: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    return stream.getvalue()


def pages(form: str, *seeds: int, **options: Any) -> bytes:
    first, *others = (draw(seed, 96) for seed in seeds)
    return encode(first, form, save_all=True, append_images=others, **options)


def logo(word: str, ground: tuple[int, int, int, int] = (255, 255, 255, 0)) -> Image.Image:
    picture = Image.new("RGBA", (320, 160), ground)
    drawn = ImageDraw.Draw(picture)
    drawn.rectangle((10, 10, 120, 150), (200, 30, 30, 255))
    drawn.text((140, 50), word, (255, 255, 255, 255), ImageFont.load_default(48))
    return picture


def cut_out() -> Image.Image:
    picture = draw().convert("RGBA")
    shape = Image.new("L", picture.size, 0)
    ImageDraw.Draw(shape).ellipse((20, 20, picture.width - 20, picture.height - 20), 255)
    picture.putalpha(shape)
    return picture


def flatten(picture: Image.Image) -> Image.Image:
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")


def deep(low: int, form: str = ".png") -> bytes:
    """A picture of 16 bits a channel; of its lower 8 bits, all are `low`."""
    pixels = np.asarray(draw()).astype(np.uint16) * 256 + low
    return bytes(cv2.imencode(form, pixels[..., ::-1])[1])


def separations(black: int) -> bytes:
    """CMYK that is shown as the same black, however much of it is black ink."""
    pixels = np.full((96, 96, 4), 255, np.uint8)
    pixels[..., 3] = black
    return encode(Image.fromarray(pixels, mode="CMYK"), "TIFF")


def profiled() -> bytes:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    return encode(draw(), "PNG", icc_profile=profile)


def judge(folder: Path, one: bytes, other: bytes) -> Judgement:
    files = folder / "one", folder / "other"
    for file, content in zip(files, (one, other), strict=True):
        file.write_bytes(content)
    return PairJudge().judge(KnownPair(*files))


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        (lambda: pages("TIFF", 1, 2, 3), lambda: pages("TIFF", 1, 4, 5), "first 1 of 3 and 3 frames or pages are the same"),
        (lambda: pages("TIFF", 1, 2, 3), lambda: pages("TIFF", 1, 2, 5), "first 2 of 3 and 3"),
        (lambda: pages("GIF", 1, 2), lambda: pages("GIF", 1, 4), "first 1 of 2 and 2"),
        (lambda: pages("MPO", 1, 2), lambda: pages("MPO", 1, 4), "first 1 of 2 and 2"),
        (lambda: pages("MPO", 1, 2), lambda: encode(draw(1, 96), "JPEG"), "one file has 2 frames or pages instead of 1"),
        (lambda: pages("PNG", 1, 2), lambda: pages("PNG", 1, 4), "first 1 of 2 and 2"),
        (
            lambda: pages("WEBP", 1, 2, lossless=True),
            lambda: pages("WEBP", 1, 4, lossless=True),
            "first 1 of 2 and 2",
        ),
        (lambda: pages("GIF", 1, 2, duration=50), lambda: pages("GIF", 1, 2, duration=500), "is shown for another time"),
        (lambda: encode(logo("RED"), "PNG"), lambda: encode(logo("BLUE"), "PNG"), "other parts of them are transparent"),
        (lambda: encode(logo("RED"), "PNG"), lambda: encode(logo("RED").resize((200, 100)), "PNG"), ""),
        (lambda: encode(cut_out(), "PNG"), lambda: encode(flatten(cut_out()), "PNG"), "one file has transparent parts"),
        (lambda: deep(0), lambda: encode(draw(), "PNG"), "one file has 16 bits a channel instead of 8"),
        (lambda: deep(0), lambda: deep(77), "only the upper 8 are known to agree"),
        (lambda: separations(255), lambda: separations(100), "their channels of CMYK differ"),
        (lambda: separations(255), lambda: encode(Image.new("RGB", (96, 96)), "TIFF"), "one file has CMYK channels"),
        (profiled, lambda: encode(draw(), "PNG"), "one file has the colour profile Lab identity built-in"),
        (
            lambda: encode(draw(), "JPEG") + b"\0\0\0\x18ftypmp42film",
            lambda: encode(draw(), "JPEG", comment=b"still"),
            "one file has a film behind the picture",
        ),
    ],
)
def test_what_is_shown_alike_first_is_not_the_same_file(one: Make, other: Make, reason: str, tmp_path: Path) -> None:
    """Each of these was "the same pixels", and one of the two was removed."""
    found = judge(tmp_path, one(), other())
    assert found.kind != "same file" and reason in found.reason, found
    if reason and "one file has" not in reason:
        assert (found.kind, found.is_copy) == (("same scene", False) if reason.startswith("first") else ("likely", True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: pages("TIFF", 1, 2, 3), lambda: pages("TIFF", 1, 2, 3, compression="tiff_lzw")),
        (lambda: pages("GIF", 1, 2, duration=50), lambda: pages("GIF", 1, 2, duration=50, comment="again")),
        (lambda: encode(cut_out(), "PNG"), lambda: encode(cut_out(), "WEBP", lossless=True, exact=True)),
        (lambda: encode(draw().convert("RGBA"), "PNG"), lambda: encode(draw(), "BMP")),
        (lambda: encode(draw().convert("P"), "PNG"), lambda: encode(draw().convert("P").convert("RGB"), "PNG")),
        (lambda: deep(77), lambda: deep(77, ".tiff")),
        (
            lambda: encode(draw(), "PNG"),
            lambda: encode(draw(), "PNG", icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()),
        ),
    ],
)
def test_what_holds_the_same_is_the_same_file(one: Make, other: Make, tmp_path: Path) -> None:
    assert judge(tmp_path, one(), other()).kind == "same file"


def test_a_picture_that_is_turned_by_a_tag_is_the_same_as_one_that_was_turned(tmp_path: Path) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    turned = encode(draw(), "PNG", exif=tags)
    assert judge(tmp_path, turned, encode(draw().transpose(Image.Transpose.ROTATE_270), "PNG")).kind == "same file"
    assert judge(tmp_path, turned, encode(draw(), "PNG")).kind != "same file"


def test_re_saves_of_animations_are_looked_at(tmp_path: Path) -> None:
    """Of two that were compressed differently, only the first frames are laid on each other."""
    frames = [draw(seed) for seed in (1, 2)]
    one, other = (encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], quality=quality) for quality in (80, 95))
    found = judge(tmp_path, one, other)
    assert found.kind == "likely" and "only the first ones are compared" in found.reason


def test_reports_with_one_cover_are_no_copies_at_any_size(tmp_path: Path) -> None:
    """The cover alone would be certain; of a report and its smaller form nothing is said beyond it."""

    def save(scale: float, *seeds: int) -> bytes:
        first, *others = (ImageOps.scale(draw(seed), scale) for seed in seeds)
        return encode(first, "TIFF", save_all=True, append_images=others)

    other = judge(tmp_path, save(1.0, 3, 5, 8), save(0.8, 3, 5, 9))
    assert other.kind == "same scene" and "page 3 shows something else" in other.reason
    assert judge(tmp_path, save(1.0, 3, 5, 8), save(0.8, 3, 5, 8)).kind == "likely"


def test_a_word_on_transparent_tells_scaled_logos_apart(tmp_path: Path) -> None:
    """On white, a white word is not there."""
    ground = draw()
    one, other = (ground.convert("RGBA") for _ in range(2))
    for picture, word in ((one, "RED"), (other, "BLUE")):
        picture.paste((255, 255, 255, 0), (60, 100, 260, 200))
        ImageDraw.Draw(picture).text((80, 120), word, (255, 255, 255, 255), ImageFont.load_default(48))
    small = other.resize((other.width * 3 // 4, other.height * 3 // 4), Image.Resampling.LANCZOS)
    found = judge(tmp_path, encode(one, "PNG"), encode(small, "PNG"))
    assert (found.kind, found.reason.split(";")[0]) == ("likely", "other parts of them are transparent")
    small = one.resize((one.width * 3 // 4, one.height * 3 // 4), Image.Resampling.LANCZOS)
    assert judge(tmp_path, encode(one, "PNG"), encode(small, "PNG")).kind == "certain"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (lambda: encode(draw(), "JPEG"), Contents()),
        (lambda: pages("GIF", 1, 2, 3), Contents(frames=3)),
        (lambda: encode(cut_out(), "AVIF"), Contents(transparent=True)),
        (lambda: encode(draw(), "JPEG2000"), Contents()),
        (lambda: encode(draw().convert("CMYK"), "JPEG"), Contents(space="CMYK")),
        (lambda: b"P6\n# made\n16 16\n65535\n" + bytes(16 * 16 * 6), Contents(depth=16)),
        (lambda: deep(5), Contents(depth=16)),
        (lambda: encode(draw().convert("F"), "TIFF"), Contents(depth=32)),
    ],
)
def test_what_a_file_holds_is_read_from_its_header(content: Make, expected: Contents) -> None:
    assert read_contents(content()) == expected


def test_a_picture_that_says_it_is_in_srgb_has_colours_that_another_lacks() -> None:
    """It went for one with the gamma of another space, which shows the same numbers in other colours."""
    said = Contents(tagged=True)
    for kept in (Contents(profile="P3", tagged=True), Contents(embedded=frozenset({("the chunk gAMA", "digest")}))):
        assert list_missing(kept, said) == ["the colours of sRGB"]
    assert not list_missing(Contents(), said)
    linear = Contents(tagged=True, embedded=frozenset({("the chunk gAMA", "digest")}))
    assert not list_missing(linear, linear)


@pytest.mark.parametrize(("chunk", "tagged"), [(b"", False), (b"sRGB\0", True), (b"gAMA\0\0\xb1\x8f", True)])
def test_a_png_says_in_which_colours_it_is_to_be_shown(chunk: bytes, tagged: bool) -> None:
    png = encode(draw(), "PNG")
    written = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) if chunk else b""
    assert read_contents(png[:33] + written + png[33:]).tagged is tagged


def test_nothing_is_missing_of_what_holds_less() -> None:
    rich = Contents(frames=3, transparent=True, depth=16, space="CMYK", profile="P3", film="a")
    assert not list_missing(rich, Contents()) and not list_missing(rich, rich)
    assert len(list_missing(Contents(), rich)) == 6
    assert list_missing(rich, Contents(film="b")) == ["another film behind the picture"]
