"""What a picture file holds beyond its first frame as shown on white: frames, depth, separations, colours, all further parts."""

import hashlib
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps, TiffImagePlugin

from image_copies.data.decode import MAX_FILE_BYTES, MAX_IMAGE_PIXELS
from image_copies.data.errors import ImageError
from image_copies.data.formats import SIGNATURE_BYTES, detect_format, readable_formats
from image_copies.data.sources.archives import read_image_bytes

from . import parts
from .directories import shows_picture

# RGB with transparency shows all that they hold
SHOWN_MODES = ("1", "L", "P", "PA", "LA", "La", "RGB", "RGBA", "RGBa", "RGBX")
MAX_COMPARED_PIXELS = 2_000_000_000  # of all frames of two files, which are not called the same beyond
MAX_PROFILES = 64  # that are known at a time
# levels by which the colours of profiles differ that say what a picture without one is taken for
MAX_COLOURS_APART = 8
# what says that numbers are those of sRGB: as code points, as JPEG 2000 names it, also in grey and YCC; as gamma and primaries,
# which programs round. What is not known is as if unsaid.
SAYS_SRGB = re.compile(
    rb"(?:cICP|nclx)\0?[\x01\x02]\0?[\x02\x0d]|colr\x01..\0\0\0[\x10-\x12]|gAMA\0\0\xb1[\x50-\xd0]|cHRM\0\0\x7a.\0\0\x80[\x50-\xc0]"
    rb"\0\0(?:\xf9|\xfa).\0\0(?:\x80|\x81).\0\0\x75.\0\0\xea.\0\0\x3a.\0\0\x17.",
    re.DOTALL,
)
OTHER_COLOURS = "they are to be shown in other colours"
# pixels at which pictures in other colours are looked at, and parts of their sides
LOOK_SIDE, LOOK_CELLS = 256, 16
NEXT_DIFFER = "the same, the next ones differ"
# parts of a side in which transparency is compared, and levels by which that of copies differs in a part
ALPHA_CELLS, MAX_ALPHA_APART = 64, 80
OTHER_ALPHA = "other parts of them are transparent"
# a property: how XMP holds it, "", "Alt", "Seq", "Bag", or "structure" for what is no plain text; then its values
Note = tuple[str, ...]
Notes = Mapping[str, Note]
# of JPEG 2000, and where it says the depth of the first channel
CODESTREAM, DEPTH_OFFSET = b"\xff\x4f\xff\x51", 42


@dataclass(frozen=True)
class Contents:
    """What a picture file holds.

    Attributes:
        frames: Number of frames or pages.
        transparent: Whether a pixel of the first frame is not opaque.
        depth: Bits a channel.
        space: Mode of its channels where RGB does not show all of them, such as CMYK; empty otherwise.
        colours: What says that it is to be shown in other colours than sRGB: a profile, or a part; empty where nothing does.
        embedded: Names, in words that follow "it has", and digests of all further parts but notes (`parts.py`), of the numbers of
            a palette, and of colours where it is transparent.
        thumbnails: The same of thumbnails that show it, as any writer makes them.
        notes: What it and its sidecars note, by property. This and what follows is read by `files/surplus.py`, of files alone.
        companions: Further files that belong to it.
        attributes: Its extended attributes.
    """

    frames: int = 1
    transparent: bool = False
    depth: int = 8
    space: str = ""
    colours: bytes = b""
    embedded: frozenset[tuple[str, str]] = frozenset()
    thumbnails: frozenset[tuple[str, str]] = field(default=frozenset(), compare=False)
    notes: Notes = field(default_factory=dict, compare=False)
    companions: tuple[Path, ...] = field(default=(), compare=False)
    attributes: Mapping[str, bytes] = field(default_factory=dict, compare=False)


def read_contents(source: Path | bytes) -> Contents:
    """Read what a file holds.

    Raises:
        ImageError: it cannot be read.
    """
    content = _read(source)
    with open_picture(source, content) as image:
        mode = image.mode  # of TIFF, that of the first page
        listed = parts.list_parts(image, content)
        transparent, hidden = _read_hidden(image)
        unknown = [part for part in listed if part[0] not in parts.METADATA | {parts.COLOURS}]
        usual = _find_usual(source, content, [part for part in unknown if part[0] == parts.THUMBNAIL])
        return Contents(
            frames=getattr(image, "n_frames", 1),
            depth=_find_depth(image, content),
            space="" if mode in SHOWN_MODES or _is_deep(mode) else mode,
            colours=_find_colours(image, [part for name, part in listed if name == parts.COLOURS]),
            embedded=_digest([*unknown, *hidden]) - usual,
            thumbnails=usual,
            transparent=transparent,
        )


def list_missing(kept: Contents, file: Contents) -> list[str]:
    """Return what a file has that the kept one lacks, in words that follow "it has"."""
    lacking = {
        f"{file.frames} frames or pages instead of {kept.frames}": file.frames > kept.frames,
        "transparent parts": file.transparent and not kept.transparent,
        f"{file.depth} bits a channel instead of {kept.depth}": file.depth > kept.depth,
        f"{file.space} channels": file.space and file.space != kept.space,
        "a colour profile of its own": file.colours and file.colours != kept.colours,
    }
    others = {name for name, _ in kept.embedded}
    own = (
        {name for name, _ in file.embedded - kept.embedded - kept.thumbnails}
        if file.frames <= kept.frames
        else set()
    )
    words = [name for name, lacks in lacking.items() if lacks]
    return words + sorted(f"{name} of its own" if name in others else name for name in own)


def match_contents(
    one: Path | bytes, other: Path | bytes, held: tuple[Contents, Contents], shown_alike: bool
) -> str | None:
    """Compare all that two files hold, of which one certainly is a copy of the other by what is shown first.

    Args:
        one: One file.
        other: The other.
        held: What they hold.
        shown_alike: Whether the first frames, as 8-bit RGB on white, are equal.

    Returns:
        Why neither can stand for the other, whatever it shows first; empty if one can, None if they hold the same.
    """
    first, second = held
    try:
        if first.colours != second.colours and not _look_alike((one, first), (other, second)):
            return OTHER_COLOURS
        if shown_alike:
            return _match_frames(one, other, first, second)
        if first.frames > 1 and second.frames > 1:
            frames = f"{first.frames} and {second.frames} frames or pages"
            return f"of {frames}, only the first ones are compared"
        deep = min(first.depth, second.depth) > 8
        if deep or (first.transparent and second.transparent):
            (size, alpha), (other_size, other_alpha) = map(_read_alpha, (one, other))
            if np.abs(alpha - other_alpha).max() > MAX_ALPHA_APART:
                return OTHER_ALPHA
            if deep and size == other_size:
                return f"of {first.depth} bits a channel, only the upper 8 agree"
    except ImageError as error:
        return f"what they hold cannot be compared: {error}"
    return ""


def _match_frames(one: Path | bytes, other: Path | bytes, first: Contents, second: Contents) -> str | None:
    """Compare files of which the first frames are shown alike."""
    shared = min(first.frames, second.frames)
    if (first.depth, first.space) != (second.depth, second.space):
        return "their frames or pages have other channels" if shared > 1 else ""
    read = 0
    with open_picture(one) as query, open_picture(other) as reference:
        for number in range(shared):
            own, shown = _read_frame(query, number)
            theirs, shown_too = _read_frame(reference, number)
            read += own.size + theirs.size
            if read > MAX_COMPARED_PIXELS:
                return f"they hold too much to be compared beyond frame {number}"
            if not np.array_equal(own, theirs, equal_nan=own.dtype.kind == "f"):
                return _describe_difference(number, first, second, own, theirs)
            if shown != shown_too and shared > 1:
                return f"frame {number + 1} is shown for another time"
        if first.depth > 8 and not (_is_deep(query.mode) and _is_deep(reference.mode)):
            return f"of {first.depth} bits a channel, only the upper 8 are known to agree"
    return None if first == second else ""


def _describe_difference(
    number: int, first: Contents, second: Contents, own: NDArray[Any], theirs: NDArray[Any]
) -> str:
    """Return why two files that are shown alike do not go for each other; empty where one may."""
    if number:
        return f"the first {number} of {first.frames} and {second.frames} frames or pages are {NEXT_DIFFER}"
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


def _read_alpha(source: Path | bytes) -> tuple[tuple[int, int], NDArray[np.int16]]:
    """Return a picture's size, and how opaque its parts are [ALPHA_CELLS, ALPHA_CELLS]."""
    with open_picture(source) as image:
        alpha = ImageOps.exif_transpose(image).convert("RGBA").getchannel("A")
        return alpha.size, np.asarray(alpha.resize((ALPHA_CELLS,) * 2, Image.Resampling.BOX), np.int16)


def _digest(listed: Sequence[parts.Part]) -> frozenset[tuple[str, str]]:
    return frozenset((name, hashlib.sha256(data).hexdigest()) for name, data in listed)


def _find_usual(
    source: Path | bytes, content: bytes, thumbnails: Sequence[parts.Part]
) -> frozenset[tuple[str, str]]:
    """Return the digests of the thumbnails that show a file's picture."""
    if not thumbnails:
        return frozenset()
    with open_picture(source, content) as image:
        image.thumbnail((LOOK_SIDE, LOOK_SIDE))
        return _digest([(name, data) for name, data in thumbnails if shows_picture(data, image)])


def _is_deep(mode: str) -> bool:
    return mode.startswith("I") or mode == "F"


def _read_hidden(image: Image.Image) -> tuple[bool, list[parts.Part]]:
    """Return whether a pixel is not opaque, and what pixels hold that is not seen: numbers of a palette, hidden colours."""
    if image.width * image.height > MAX_IMAGE_PIXELS:
        return image.has_transparency_data, []  # for all that is known
    numbers = image.tobytes() if image.mode in ("P", "PA") and image.format != "GIF" else b""
    found = [("the numbers of its palette", numbers)] if numbers else []
    if not image.has_transparency_data:
        return False, found
    pixels = np.asarray(image.convert("RGBA"))
    hidden = pixels[pixels[..., 3] == 0][:, :3]
    if hidden.size and (hidden != hidden[0]).any():
        found.append(("colours where it is transparent", hidden.tobytes()))
    return bool(pixels[..., 3].min() < 255), found


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
    return 16 if _is_deep(image.mode) else 8


def _find_colours(image: Image.Image, said: list[bytes]) -> bytes:
    """Return what says that a picture is to be shown in other colours than sRGB, of the parts that say something of colours."""
    named = {part[:4]: part for part in said}
    profile = image.info.get("icc_profile") or b""
    if b"cICP" in named:
        said = [named[b"cICP"]]
    elif profile:
        said = [] if _is_srgb(profile) else [profile]
    elif b"sRGB" in named:
        said = []
    return b"".join(sorted(part for part in said if not SAYS_SRGB.match(part)))


@lru_cache(MAX_PROFILES)
def _is_srgb(profile: bytes) -> bool:
    """Whether a profile shows numbers from all over RGB, or grey, as sRGB does."""
    levels = np.linspace(0, 255, 6).astype(np.uint8)
    palette = Image.fromarray(np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(6, -1, 3))
    return any(_are_near(_show(numbers, profile), numbers) for numbers in (palette, palette.convert("L")))


def _are_near(one: Image.Image | None, other: Image.Image | None) -> bool:
    """Whether colours are known and the same."""
    if one is None or other is None:
        return False
    pixels = [np.asarray(shown.convert("RGB"), np.int16) for shown in (one, other)]
    return bool(np.abs(pixels[0] - pixels[1]).max() <= MAX_COLOURS_APART)


def _look_alike(*files: tuple[Path | bytes, Contents]) -> bool:
    """Whether two files look alike as a whole where each is shown in its own colours, as after a conversion."""
    looks = []
    for source, contents in files:
        with open_picture(source) as image:
            image.thumbnail((LOOK_SIDE, LOOK_SIDE))
            picture = ImageOps.exif_transpose(image)
            picture = picture if picture.mode in ("L", "CMYK") else picture.convert("RGB")
            looks.append(
                _show(picture.resize((LOOK_CELLS, LOOK_CELLS), Image.Resampling.BOX), contents.colours)
            )
    return _are_near(*looks)


def _show(picture: Image.Image, colours: bytes) -> Image.Image | None:
    """Return a picture in sRGB; None where its profile is damaged, of other channels, or none."""
    if not colours:
        return picture
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(colours))
        srgb = ImageCms.createProfile("sRGB")
        return ImageCms.profileToProfile(
            picture, profile, srgb, ImageCms.Intent.RELATIVE_COLORIMETRIC, outputMode="RGB"
        )
    except (ImageCms.PyCMSError, OSError):
        return None


def _name(source: Path | bytes) -> Path:
    return Path("<bytes>") if isinstance(source, bytes) else source


def _read(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else read_image_bytes(source, MAX_FILE_BYTES)


@contextmanager
def open_picture(source: Path | bytes, content: bytes = b"") -> Iterator[Image.Image]:
    """Open a picture, without warnings.

    Raises:
        ImageError: it is damaged; raised for whatever such a picture raises, also while it is decoded.
    """
    content = content or _read(source)
    try:
        formats = readable_formats(content[:SIGNATURE_BYTES])
        with (
            warnings.catch_warnings(action="ignore"),
            Image.open(io.BytesIO(content), formats=formats) as image,
        ):
            yield image
    except ImageError:
        raise
    except Exception as error:  # damaged files raise anything
        raise ImageError(_name(source), f"is damaged ({error})") from error
