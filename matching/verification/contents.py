"""What a picture file holds beyond its first frame as shown on white: frames, transparency, depth, separations, profile, film."""

import hashlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps, TiffImagePlugin

from image_copies.data.decode import MAX_FILE_BYTES, MAX_IMAGE_PIXELS
from image_copies.data.errors import ImageError
from image_copies.data.formats import SIGNATURE_BYTES, detect_format, readable_formats
from image_copies.data.sources.archives import read_image_bytes
from image_copies.matching.verification.embedded import OTHER_COLOURS, Embedded, list_embedded

SHOWN_MODES = ("1", "L", "P", "PA", "LA", "La", "RGB", "RGBA", "RGBa", "RGBX")  # RGB with transparency shows all that they hold
MAX_COMPARED_PIXELS = 2_000_000_000  # of all frames of two files, which are not called the same beyond
MAX_ALPHA_SIDE = 1024  # pixels of the longer side at which the transparency of copies is compared
MAX_ALPHA_APART = 64.0  # levels by which it may differ, averaged over ALPHA_REACH × ALPHA_REACH pixels, as scaling and coding do
ALPHA_REACH = 5
MAX_ASPECT_APART = 1.02  # ratio of the aspect ratios of copies of which transparency can be compared
MAX_PROFILES = 64  # that are known at a time
MAX_COLOURS_APART = 8  # levels by which the colours of profiles differ that say what a picture without one is taken for
COLOUR_CHUNKS = {"srgb", "gamma", "chromaticity"}  # what Pillow calls the chunks sRGB, gAMA and cHRM of a PNG
FILM = re.compile(rb"ftyp(?:mp4[12]|isom|iso[2-6]|qt  |avc1|3g[2p].|MSNV|hvc1)", re.DOTALL)
PPM_WHITE = re.compile(rb"P[2356]\s+(?:#[^\n]*\n\s*)*\d+\s+\d+\s+(\d+)")
OTHER_ALPHA = "other parts of them are transparent"
CODESTREAM, DEPTH_OFFSET = b"\xff\x4f\xff\x51", 42  # of JPEG 2000, and where it says the depth of the first channel


@dataclass(frozen=True)
class Contents:
    """What a picture file holds.

    Attributes:
        frames: Number of frames or pages.
        transparent: Whether a pixel of the first frame is not opaque.
        depth: Bits a channel.
        space: Mode of its channels where RGB does not show all of them, such as CMYK; empty otherwise.
        profile: Description of the colour profile; empty for sRGB and where there is none.
        film: Digest of a film that follows the picture in the file, as in motion photos; empty where there is none.
        embedded: What else it embeds (`embedded.py`).
        tagged: Whether it says in which colours it is to be shown: by a profile, or as a PNG by other chunks.
    """

    frames: int = 1
    transparent: bool = False
    depth: int = 8
    space: str = ""
    profile: str = ""
    film: str = ""
    embedded: Embedded = frozenset()
    tagged: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class ContentsMatch:
    """What a comparison of all that two files hold says.

    Attributes:
        same: Whether they hold the same.
        conflict: Why neither can stand for the other, whatever it shows first; empty if one can.
        apart: Whether later frames or pages are known to differ, as of two reports with one cover.
    """

    same: bool
    conflict: str = ""
    apart: bool = False


def read_contents(source: Path | bytes) -> Contents:
    """Read what a file holds.

    Raises:
        ImageError: it cannot be read.
    """
    content = _read(source)
    with warnings.catch_warnings(), _open(source, content) as image:
        warnings.simplefilter("ignore")
        mode = image.mode  # of TIFF, that of the first page
        profile = image.info.get("icc_profile")
        return Contents(
            frames=getattr(image, "n_frames", 1),
            depth=_find_depth(image, content),
            space="" if mode in SHOWN_MODES or _is_deep(mode) else mode,
            profile=_describe_profile(profile) if profile else "",
            tagged=bool(profile) or not image.info.keys().isdisjoint(COLOUR_CHUNKS),
            embedded=list_embedded(image, content),
            film=_find_film(content),
            transparent=_is_transparent(image),
        )


def list_missing(kept: Contents, file: Contents) -> list[str]:
    """Return what a file has that the kept one lacks, in words that follow "it has"."""
    missing = []
    if file.frames > kept.frames:
        missing.append(f"{file.frames} frames or pages instead of {kept.frames}")
    if file.transparent and not kept.transparent:
        missing.append("transparent parts")
    if file.depth > kept.depth:
        missing.append(f"{file.depth} bits a channel instead of {kept.depth}")
    if file.space and file.space != kept.space:
        missing.append(f"{file.space} channels")
    if file.profile and file.profile != kept.profile:
        missing.append(f"the colour profile {file.profile}")
    if file.tagged and not _has_other_colours(file) and _has_other_colours(kept):
        missing.append("the colours of sRGB")
    if file.film and file.film != kept.film:
        missing.append("another film behind the picture" if kept.film else "a film behind the picture")
    elif file.frames <= kept.frames:
        missing += sorted({name for name, _ in file.embedded - kept.embedded})
    return missing


def _has_other_colours(contents: Contents) -> bool:
    """Whether a file says that it is to be shown in other colours than those of sRGB."""
    return bool(contents.profile) or any(name in OTHER_COLOURS for name, _ in contents.embedded)


def match_contents(one: Path | bytes, other: Path | bytes, held: tuple[Contents, Contents], shown_alike: bool) -> ContentsMatch:
    """Compare all that two files hold, of which one certainly is a copy of the other by what is shown first.

    Args:
        one: One file.
        other: The other.
        held: What they hold.
        shown_alike: Whether the first frames, as 8-bit RGB on white, are equal.
    """
    first, second = held
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if shown_alike:
                return _match_frames(one, other, first, second)
            if first.frames > 1 and second.frames > 1:
                frames = f"{first.frames} and {second.frames} frames or pages"
                return ContentsMatch(False, f"of {frames}, only the first ones are compared")
            if first.transparent and second.transparent and not _has_same_alpha(one, other):
                return ContentsMatch(False, OTHER_ALPHA)
    except ImageError as error:
        return ContentsMatch(False, f"what they hold cannot be compared: {error}")
    return ContentsMatch(False)


def read_pages(source: Path | bytes) -> Iterator[NDArray[np.uint8]]:
    """Yield the second and further pages [h, w, 3] of a document, upright; of an animation, which is none, nothing.

    Raises:
        ImageError: one cannot be read.
    """
    with _open(source, _read(source)) as image:
        for number in range(1, getattr(image, "n_frames", 1) if image.format == "TIFF" else 1):
            image.seek(number)
            if image.width * image.height > MAX_IMAGE_PIXELS:
                raise ImageError(_name(source), f"has a page of more than {MAX_IMAGE_PIXELS:,} pixels")
            yield np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def _match_frames(one: Path | bytes, other: Path | bytes, first: Contents, second: Contents) -> ContentsMatch:
    """Compare files of which the first frames are shown alike."""
    if (first.depth, first.space) != (second.depth, second.space):
        both = first.frames > 1 and second.frames > 1
        return ContentsMatch(False, "their frames or pages have other channels" if both else "")
    contents, read = [_read(source) for source in (one, other)], 0
    with _open(one, contents[0]) as query, _open(other, contents[1]) as reference:
        for number in range(min(first.frames, second.frames)):
            (own, shown), (theirs, shown_too) = _read_frame(query, number), _read_frame(reference, number)
            read += own.size + theirs.size
            if read > MAX_COMPARED_PIXELS:
                return ContentsMatch(False, f"they hold too much to be compared beyond frame {number}")
            if not np.array_equal(own, theirs, equal_nan=own.dtype.kind == "f"):
                return ContentsMatch(False, _describe_difference(number, first, second, own, theirs), apart=number > 0)
            if shown != shown_too and min(first.frames, second.frames) > 1:
                return ContentsMatch(False, f"frame {number + 1} is shown for another time")
        exact = first.depth == 8 or (_is_deep(query.mode) and _is_deep(reference.mode))
        if not exact and not (first.frames == second.frames == 1 and _has_same_depths(query, reference, contents)):
            return ContentsMatch(False, f"of {first.depth} bits a channel, only the upper 8 are known to agree")
    return ContentsMatch(first == second)


def _describe_difference(number: int, first: Contents, second: Contents, own: NDArray[Any], theirs: NDArray[Any]) -> str:
    """Return why two files that are shown alike do not go for each other; empty where one may."""
    if number:
        return f"the first {number} of {first.frames} and {second.frames} frames or pages are the same, the next ones differ"
    if first.frames > 1 and second.frames > 1:
        return OTHER_ALPHA
    if first.space:
        return f"their channels of {first.space} differ"
    if first.depth > 8:
        return f"of {first.depth} bits a channel, only the upper 8 agree"
    same_alpha = own.shape == theirs.shape and np.array_equal(own[..., -1], theirs[..., -1])
    return "" if same_alpha or not (first.transparent and second.transparent) else OTHER_ALPHA


def _read_frame(image: Image.Image, number: int) -> tuple[NDArray[Any], float]:
    """Return a frame, upright, as RGBA or in its own channels where RGB is not all of it, and its duration in milliseconds."""
    image.seek(number)
    if image.width * image.height > MAX_IMAGE_PIXELS:
        raise ImageError(Path("<bytes>"), f"has a frame of more than {MAX_IMAGE_PIXELS:,} pixels")
    frame = ImageOps.exif_transpose(image)
    pixels = np.asarray(frame.convert("RGBA") if frame.mode in SHOWN_MODES else frame)
    return pixels, float(image.info.get("duration") or 0)  # which is known once the frame is decoded


def _has_same_alpha(one: Path | bytes, other: Path | bytes) -> bool:
    alphas = []
    for source in (one, other):
        with _open(source, _read(source)) as image:
            alphas.append(_read_frame(image, 0)[0][..., 3])
    (height, width), (others_height, others_width) = (alpha.shape for alpha in alphas)
    if not 1 / MAX_ASPECT_APART < height * others_width / (width * others_height) < MAX_ASPECT_APART:
        return False
    height, width = min((height, width), (others_height, others_width))
    scale = min(1.0, MAX_ALPHA_SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = [cv2.resize(alpha, size, interpolation=cv2.INTER_AREA).astype(np.float32) for alpha in alphas]
    return float(cv2.blur(np.abs(small[0] - small[1]), (ALPHA_REACH, ALPHA_REACH)).max()) <= MAX_ALPHA_APART


def _has_same_depths(one: Image.Image, other: Image.Image, contents: Sequence[bytes]) -> bool:
    """Whether channels of more than 8 bits, of which the decoder gives 8, are known to agree in all of them."""
    if {one.format, other.format} - {"PNG", "TIFF"}:
        return False
    first, second = (cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED) for content in contents)
    return first is not None and second is not None and np.array_equal(first, second)


def _is_deep(mode: str) -> bool:
    return mode.startswith("I") or mode == "F"


def _is_transparent(image: Image.Image) -> bool:
    if not image.has_transparency_data:
        return False
    if image.width * image.height > MAX_IMAGE_PIXELS:
        return True  # for all that is known
    lowest = image.convert("RGBA").getchannel("A").getextrema()[0]
    return not isinstance(lowest, tuple) and lowest < 255


def _find_depth(image: Image.Image, content: bytes) -> int:
    """Return the bits a channel that the file says it has; the decoder gives 8 for many that have more."""
    if image.mode == "F":
        return 32
    kind = detect_format(content[:SIGNATURE_BYTES])
    if kind == "PNG":
        return max(8, content[24])
    if kind == "TIFF" and isinstance(image, TiffImagePlugin.TiffImageFile):
        bits: int | tuple[int, ...] = image.tag_v2.get(258, 8)
        return max(8, *((bits,) if isinstance(bits, int) else bits))
    if kind in ("AVIF", "HEIF"):
        return max([8, *(content[found.end() + 5] for found in re.finditer(b"pixi", content[: 2**16]))])
    if kind == "JPEG2000" and (start := content.find(CODESTREAM)) >= 0:
        return max(8, (content[start + DEPTH_OFFSET] & 0x7F) + 1)
    if kind == "PPM" and (white := PPM_WHITE.match(content[: 2**16])):
        return 16 if int(white[1]) > 255 else 8
    return 16 if _is_deep(image.mode) else 8


@lru_cache(MAX_PROFILES)
def _describe_profile(profile: bytes) -> str:
    """Return the description of a colour profile, or a digest of one that has none; empty where it shows the colours of sRGB."""
    described = ""
    try:
        opened, levels = ImageCms.ImageCmsProfile(io.BytesIO(profile)), np.linspace(0, 255, 6).astype(np.uint8)
        described = ImageCms.getProfileDescription(opened).strip()
        palette = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(6, -1, 3)
        intent = ImageCms.Intent.RELATIVE_COLORIMETRIC
        shown = ImageCms.profileToProfile(Image.fromarray(palette), opened, ImageCms.createProfile("sRGB"), intent)
        if np.abs(np.asarray(shown, np.int16) - palette).max() <= MAX_COLOURS_APART:
            return ""
    except (ImageCms.PyCMSError, OSError):
        pass  # damaged, or of other channels
    return described or hashlib.sha256(profile).hexdigest()[:12]


def _find_film(content: bytes) -> str:
    found = FILM.search(content, 12)  # a picture's own mark comes before
    return hashlib.sha256(content[found.start() :]).hexdigest() if found else ""


def _name(source: Path | bytes) -> Path:
    return Path("<bytes>") if isinstance(source, bytes) else source


def _read(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else read_image_bytes(source, MAX_FILE_BYTES)


@contextmanager
def _open(source: Path | bytes, content: bytes) -> Iterator[Image.Image]:
    """Open a picture; whatever a damaged one raises, also while it is decoded, is an ImageError."""
    try:
        with Image.open(io.BytesIO(content), formats=readable_formats(content[:SIGNATURE_BYTES])) as image:
            yield image
    except ImageError:
        raise
    except Exception as error:  # damaged files raise anything
        raise ImageError(_name(source), f"is damaged ({error})") from error
