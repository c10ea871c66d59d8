"""Two files are the same only if all that they hold agrees, not their first frame as 8-bit RGB on white alone."""

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms, ImageDraw, ImageFont, ImageOps

from image_copies.data.procedural import draw_picture
from image_copies.matching.matches import Match
from image_copies.matching.pairs import PairJudge
from image_copies.matching.verification.contents import Contents, list_missing, match_contents, read_contents
from image_copies.matching.verification.judgement import Judgement
from tests.pictures import encode

Make = Callable[[], bytes]


def draw(seed: int = 3, side: int = 320) -> Image.Image:
    return Image.fromarray(draw_picture(np.random.default_rng(seed), side)).resize((side, side * 3 // 4))


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


def deep(low: int, form: str = ".png", step: int = 256) -> bytes:
    """A picture of 16 bits a channel: values of 8 bits, `step` times as large, and `low` more."""
    pixels = np.asarray(draw()).astype(np.uint16) * step + low
    return bytes(cv2.imencode(form, pixels[..., ::-1])[1])


def separations(black: int) -> bytes:
    """CMYK that is shown as the same black, however much of it is black ink."""
    pixels = np.full((96, 96, 4), 255, np.uint8)
    pixels[..., 3] = black
    return encode(Image.fromarray(pixels, mode="CMYK"), "TIFF")


def add(png: bytes, chunk: bytes) -> bytes:
    """Put a chunk behind the header of a PNG."""
    return png[:33] + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[33:]


SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
LAB = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
SWAPPED = SRGB.replace(b"rXYZ", b"tmp!").replace(b"bXYZ", b"rXYZ").replace(b"tmp!", b"bXYZ")  # red is blue
SRGB_PRIMARIES = struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
ADOBE_RGB_PRIMARIES = struct.pack(">8I", 31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000)
LINEAR = b"gAMA\0\1\x86\xa0"


def hide(colour: str, side: int = 320) -> bytes:
    """A picture with a transparent part, of which one half has another colour that nobody sees."""
    picture = draw(side=side).convert("RGBA")
    for row, below in enumerate(("white", colour)):
        picture.paste(below, (side // 4 + row * side // 4, side // 4, side // 2 + row * side // 4, side // 2))
    alpha = Image.new("L", picture.size, 255)
    alpha.paste(0, (side // 4, side // 4, side * 3 // 4, side // 2))
    picture.putalpha(alpha)
    return encode(picture)


def judge(folder: Path, one: bytes, other: bytes) -> Judgement:
    files = folder / "one", folder / "other"
    for file, content in zip(files, (one, other), strict=True):
        file.write_bytes(content)
    return PairJudge().judge(Match(*files))


def scale(picture: Image.Image, size: tuple[int, int] = (160, 120)) -> bytes:
    return encode(picture.convert("RGB").resize(size), "JPEG", quality=60)


def note_in_exif(thumbnail: bytes) -> bytes:
    """A part of a JPEG, with its kind: EXIF data of which the second directory leads to a thumbnail."""
    entries = struct.pack(">HHHIIHHII", 2, 513, 4, 1, 44, 514, 4, 1, len(thumbnail))
    return b"\xe1Exif\0\0MM\0*" + struct.pack(">IHI", 8, 0, 14) + entries + bytes(4) + thumbnail


def note_for_photoshop(thumbnail: bytes) -> bytes:
    return b"\xedPhotoshop 3.0\x008BIM\x04\x0c\0\0" + struct.pack(">I", 28 + len(thumbnail)) + bytes(28) + thumbnail


def note_in_jfxx(thumbnail: bytes) -> bytes:
    return b"\xe0JFXX\0\x10" + thumbnail


def insert(part: bytes, picture: Image.Image) -> bytes:
    content = encode(picture, "JPEG")
    return content[:2] + b"\xff" + part[:1] + struct.pack(">H", len(part) + 1) + part[1:] + content[2:]


@pytest.mark.parametrize("note", [note_in_exif, note_for_photoshop, note_in_jfxx])
def test_a_thumbnail_of_another_picture_is_not_lost(note: Callable[[bytes], bytes]) -> None:
    """A crop or a retouch leaves it behind; that of another picture, or a part of it, went with the file."""
    picture, crop = draw(), draw().crop((0, 0, 250, 220))
    gradient = ImageOps.autocontrast(picture.convert("L"), cutoff=3)
    bars = ImageOps.pad(picture.crop((0, 0, 320, 200)), (160, 120))
    shown = [
        (picture, scale(picture)),
        (picture, scale(gradient)),
        (picture, scale(picture.transpose(Image.Transpose.ROTATE_90), (120, 160))),
        (picture, scale(picture, (90, 90))),
        (picture.crop((0, 0, 320, 200)), scale(bars)),
    ]
    fog = Image.blend(draw(4), Image.new("RGB", picture.size), 0.8)
    others = [(crop, scale(picture)), (picture, scale(draw(4))), (picture, scale(fog)), (picture, b"\xff\xd8damaged")]
    for named, pairs in (([], shown), (["a thumbnail of another picture"], others)):
        for each, thumbnail in pairs:
            assert list_missing(Contents(), read_contents(insert(note(thumbnail), each))) == named
    whole, part = (read_contents(insert(note(scale(picture)), each)) for each in (picture, crop))
    assert list_missing(whole, part) == []


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
        (lambda: encode(logo("RED")), lambda: encode(logo("BLUE")), "other parts of them are transparent"),
        (lambda: encode(logo("RED")), lambda: encode(logo("RED").resize((200, 100))), ""),
        (lambda: encode(cut_out()), lambda: encode(flatten(cut_out())), "one file has transparent parts"),
        (lambda: deep(0), lambda: encode(draw()), "one file has 16 bits a channel instead of 8"),
        (lambda: deep(0), lambda: deep(77), "only the upper 8 are known to agree"),
        (lambda: deep(0, step=240), lambda: deep(60, step=240), "only the upper 8 agree"),
        (lambda: deep(0, ".tiff", 240), lambda: deep(60, ".tiff", 240), "only the upper 8 agree"),
        (lambda: separations(255), lambda: separations(100), "their channels of CMYK differ"),
        (lambda: separations(255), lambda: encode(Image.new("RGB", (96, 96)), "TIFF"), "one file has CMYK channels"),
        (lambda: encode(draw(), icc_profile=LAB), lambda: encode(draw()), "to be shown in other colours"),
        (lambda: encode(draw(), "JPEG", icc_profile=SWAPPED), lambda: encode(draw(), "JPEG"), "to be shown in other colours"),
        (lambda: add(encode(draw()), LINEAR), lambda: encode(draw()), "to be shown in other colours"),
        (
            lambda: encode(draw().convert("P")),
            lambda: encode(draw().convert("P").convert("RGB")),
            "one file has the numbers of its palette",
        ),
        (lambda: hide("red"), lambda: hide("blue"), "one file has colours where it is transparent of its own"),
        (lambda: hide("red"), lambda: hide("white"), "one file has colours where it is transparent"),
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
        (lambda: encode(cut_out()), lambda: encode(cut_out(), "WEBP", lossless=True, exact=True)),
        (lambda: encode(draw().convert("RGBA")), lambda: encode(draw(), "BMP")),
        (lambda: encode(draw().convert("P")), lambda: encode(draw().convert("P"), "BMP")),
        (lambda: encode(draw()), lambda: encode(draw(), icc_profile=SRGB)),
    ],
)
def test_what_holds_the_same_is_the_same_file(one: Make, other: Make, tmp_path: Path) -> None:
    assert judge(tmp_path, one(), other()).kind == "same file"


def test_a_picture_that_is_turned_by_a_tag_is_the_same_as_one_that_was_turned(tmp_path: Path) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    turned = encode(draw(), exif=tags)
    assert judge(tmp_path, turned, encode(draw().transpose(Image.Transpose.ROTATE_270))).kind == "same file"
    assert judge(tmp_path, turned, encode(draw())).kind != "same file"


def test_re_saves_of_animations_are_looked_at(tmp_path: Path) -> None:
    """Of two that were compressed differently, only the first frames are laid on each other."""
    frames = [draw(seed) for seed in (3, 2)]
    one, other = (encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], quality=quality) for quality in (80, 95))
    found = judge(tmp_path, one, other)
    assert found.kind == "likely" and "only the first ones are compared" in found.reason


def test_a_word_on_transparent_tells_scaled_logos_apart(tmp_path: Path) -> None:
    """On white, a white word is not there."""
    ground = draw()
    one, other = (ground.convert("RGBA") for _ in range(2))
    for picture, word in ((one, "RED"), (other, "BLUE")):
        picture.paste((255, 255, 255, 0), (60, 100, 260, 200))
        ImageDraw.Draw(picture).text((80, 120), word, (255, 255, 255, 255), ImageFont.load_default(48))
    small = other.resize((other.width * 3 // 4, other.height * 3 // 4), Image.Resampling.LANCZOS)
    found = judge(tmp_path, encode(one), encode(small))
    assert (found.kind, found.reason.split(";")[0]) == ("likely", "other parts of them are transparent")
    small = one.resize((one.width * 3 // 4, one.height * 3 // 4), Image.Resampling.LANCZOS)
    assert judge(tmp_path, encode(one), encode(small)).kind == "certain"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (lambda: encode(draw(), "JPEG"), Contents()),
        (lambda: pages("GIF", 1, 2, 3), Contents(frames=3)),
        (lambda: encode(logo("RED"), "AVIF", quality=100), Contents(transparent=True)),
        (lambda: encode(draw(), "JPEG2000"), Contents()),
        (lambda: encode(draw().convert("CMYK"), "JPEG"), Contents(space="CMYK")),
        (lambda: deep(5), Contents(depth=16)),
        (lambda: encode(draw().convert("F"), "TIFF"), Contents(depth=32)),
    ],
)
def test_what_a_file_holds_is_read_from_its_header(content: Make, expected: Contents) -> None:
    assert replace(read_contents(content()), embedded=frozenset()) == expected


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ([b"sRGB\0"], False),
        ([b"gAMA" + struct.pack(">I", 45455)], False),
        ([LINEAR], True),
        ([b"cHRM" + SRGB_PRIMARIES], False),
        ([b"cHRM" + ADOBE_RGB_PRIMARIES], True),
        ([b"cHRM" + ADOBE_RGB_PRIMARIES, b"sRGB\0"], False),  # sRGB counts instead
        ([b"sRGB\0", b"cICP\x0c\x0d\0\1"], True),  # and these code points, those of P3, instead of it
        ([LINEAR, b"cICP\1\x0d\0\1"], False),
    ],
)
def test_a_png_says_in_which_colours_it_is_to_be_shown(chunks: list[bytes], said: bool) -> None:
    png = encode(draw())
    for chunk in chunks:
        png = add(png, chunk)
    assert bool(read_contents(png).colours) is said


def test_pictures_that_were_converted_from_a_profile_are_copies(tmp_path: Path) -> None:
    """As a phone's pictures in P3 are, on their way into a chat: their numbers differ, their colours do not."""
    swapped = ImageCms.ImageCmsProfile(io.BytesIO(SWAPPED))
    kept = draw()
    converted = ImageCms.profileToProfile(kept, swapped, ImageCms.createProfile("sRGB"), outputMode="RGB")
    assert converted is not None
    files = encode(kept, icc_profile=SWAPPED), encode(converted)
    held = [read_contents(content) for content in files]
    assert match_contents(*files, (held[0], held[1]), False) == ""
    assert match_contents(files[0], encode(kept), (held[0], held[1]), False)


def test_nothing_is_missing_of_what_holds_less() -> None:
    film = ("a film", "digest")
    rich = Contents(frames=3, transparent=True, depth=16, space="CMYK", colours=b"P3", embedded=frozenset({film}))
    assert not list_missing(rich, Contents()) and not list_missing(rich, rich)
    assert len(list_missing(Contents(), replace(rich, frames=1))) == 5
    assert list_missing(rich, Contents(embedded=frozenset({("a film", "other")}))) == ["a film of its own"]
