"""The directories of tags of a TIFF file, and of EXIF data, which have its form."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

NUMBERS = {3: "u2", 4: "u4", 5: "u4", 6: "i1", 8: "i2", 9: "i4", 10: "i4", 11: "f4", 12: "f8", 13: "u4"}  # by types
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
    waiting, seen, left = [("", 0, first)], {0}, 2 * len(content)
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


def _read_directory(content: bytes, place: int, order: str, left: int) -> tuple[dict[int, Value], int, int, int]:
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
            tags[tag] = list(zip(numbers[::2], numbers[1::2], strict=True)) if kind in RATIONALS else numbers
        else:
            tags[tag] = data
        end = max(end, start + size)
    for starts, lengths in DATA:
        pairs = zip(tags.get(starts, ()), tags.get(lengths, ()), strict=False)
        end = max([end, *(start + length for start, length in pairs)])
    (following,) = struct.unpack_from(f"{order}I", content, next_place)
    return tags, end, following, left
