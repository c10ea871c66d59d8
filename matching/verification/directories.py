"""The directories of tags of a TIFF file and of EXIF data, and whether a thumbnail in them shows the picture.

One that a crop or a retouch left behind shows more than the picture.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from image_copies.data.arrays import Float64s

CELLS = 16  # parts of a side in which two pictures are compared
MAX_PIXELS = 5_000_000  # of a thumbnail that is decoded
# share of what the cells vary that is not the picture's: 0.1 for thumbnails, 0.2 for crops to 95 %
MAX_REST = 0.19
# grey levels of a cell, of the same tones: a thumbnail, however sharpened, differs by up to 47
MAX_APART = 50.0

# by types
NUMBERS = {3: "u2", 4: "u4", 5: "u4", 6: "i1", 8: "i2", 9: "i4", 10: "i4", 11: "f4", 12: "f8", 13: "u4"}
RATIONALS = 5, 10
INNER = {34665: "EXIF", 34853: "GPS", 40965: "interoperability"}  # tags that lead to another directory
THUMBNAIL = 513, 514
DATA = (273, 279), (324, 325), THUMBNAIL  # where strips, tiles and thumbnails lie, and how long they are
Value = bytes | list[Any]  # a text or what is undefined; numbers, or pairs of numerator and denominator


@dataclass(frozen=True)
class Directory:
    """One directory.

    Attributes:
        name: EXIF, GPS or interoperability; empty for that of a page.
        page: Number of the page that it belongs to, from 0; of EXIF data, 1 is the thumbnail.
        tags: Their values.
        end: Where what it, its values and its strips take ends.
    """

    name: str
    page: int
    tags: dict[int, Value]
    end: int


def iterate_directories(content: bytes) -> Iterator[Directory]:
    """Yield the directories of TIFF or EXIF data.

    Raises:
        ValueError: they are damaged, or their places have 64 bits.
        struct.error: they are damaged.
    """
    order = "<" if content[:2] == b"II" else ">"
    version, first = struct.unpack_from(f"{order}HI", content, 2)
    if version != 42:
        raise ValueError("no directories of 32 bits")
    waiting = [("", 0, first)]
    seen = {0}
    left = 2 * len(content)
    while waiting:
        name, page, place = waiting.pop(0)
        if place in seen:
            continue
        seen.add(place)
        tags, end, following, left = _read_directory(content, place, order, left)
        yield Directory(name, page, tags, end)
        waiting += [(INNER[tag], page, tags[tag][0]) for tag in INNER if tag in tags]
        if not name:
            waiting.append(("", page + 1, following))


def iterate_thumbnails(exif: bytes) -> Iterator[bytes]:
    """Yield the thumbnails in EXIF data; raises as `iterate_directories` does."""
    for directory in iterate_directories(exif):
        places = (directory.tags.get(tag, ()) for tag in THUMBNAIL)
        yield from (exif[start : start + length] for start, length in zip(*places, strict=False))


def _read_directory(
    content: bytes, place: int, order: str, left: int
) -> tuple[dict[int, Value], int, int, int]:
    """Return the tags of a directory, where all that it takes ends, the place of the next one, and the bytes left to be read."""
    (count,) = struct.unpack_from(f"{order}H", content, place)
    next_place = place + 2 + 12 * count
    tags, end = dict[int, Value](), next_place + 4
    for entry in range(place + 2, next_place, 12):
        tag, kind, number, start = struct.unpack_from(f"{order}HHII", content, entry)
        values = np.dtype(order + NUMBERS.get(kind, "u1"))
        size = number * values.itemsize * (1 + (kind in RATIONALS))
        start = start if size > 4 else entry + 8
        data = content[start : start + size]
        left -= 12 + size
        if len(data) < size or left < 0:
            raise ValueError(f"tag {tag} lies outside, or where others do")
        if kind in NUMBERS:
            numbers = np.frombuffer(data, values).tolist()
            tags[tag] = (
                list(zip(numbers[::2], numbers[1::2], strict=True)) if kind in RATIONALS else numbers
            )
        else:
            tags[tag] = data
        end = max(end, start + size)
    for starts, lengths in DATA:
        pairs = zip(tags.get(starts, ()), tags.get(lengths, ()), strict=False)
        end = max([end, *(start + length for start, length in pairs)])
    (following,) = struct.unpack_from(f"{order}I", content, next_place)
    return tags, end, following, left


def shows_picture(thumbnail: bytes, picture: Image.Image) -> bool:
    """Whether a thumbnail, a JPEG, shows a picture as a whole, in any tones, turned, stretched or between bars."""
    try:
        with Image.open(io.BytesIO(thumbnail), formats=["JPEG"]) as image:
            if image.width * image.height > MAX_PIXELS:
                return False
            grey = image.convert("L")
    except Exception:  # damaged ones raise anything
        return False
    without_bars = ImageOps.fit(grey, picture.size)
    return any(_agree(_reduce(one), _reduce(picture)) for one in (grey, without_bars))


def _reduce(image: Image.Image) -> Float64s:
    """Return the grey values of the cells of a picture [CELLS, CELLS], mean 0."""
    cells = np.asarray(image.convert("L").resize((CELLS, CELLS), Image.Resampling.BOX), np.float64)
    return np.asarray(cells - cells.mean(), np.float64)


def _agree(one: Float64s, other: Float64s) -> bool:
    """Whether cells are those of the other picture in some turn, or mirrored."""
    for turn in range(4):
        for own in (np.rot90(one, turn), np.rot90(one, turn)[::-1]):
            contrast = (own * other).sum() / max(1.0, float((other * other).sum()))
            rest = own - contrast * other
            small = (rest * rest).sum() <= MAX_REST * (own * own).sum()
            if contrast >= 0 and small and np.abs(rest).max() < MAX_APART:
                return True
    return False
