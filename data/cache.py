"""A cache of resized images, in one file: training decodes each photo only once."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol
from zipfile import BadZipFile

import cv2
import numpy as np
from tqdm import tqdm

from . import decode, files, locks, squares, threads
from .arrays import Int64s, UInt8s
from .errors import ImageError
from .images import ImageSet

Form = Literal["pixels", "jpeg"]
# an image's bytes, height and width; or why it could not be read
Packed = tuple[bytes, tuple[int, int]] | str
# ends [n], shapes [n, 2], problems by id
Written = tuple[Int64s, Int64s, dict[str, str]]


class Pixels(Protocol):
    """A sequence of RGB images, each uint8 [h, w, 3]."""

    def __getitem__(self, row: int) -> UInt8s: ...


@dataclass(frozen=True)
class CachedImages:
    """Resized images, memory-mapped."""

    ids: list[str]
    # RGB uint8 [h, w, 3] by row; of an unreadable image empty (form "pixels") or an error ("jpeg")
    pixels: Pixels
    problems: dict[str, str]  # what is wrong with each unreadable image, by image id

    def __len__(self) -> int:
        return len(self.ids)

    def readable_rows(self) -> list[int]:
        """Return the rows of the images that could be read, ascending."""
        return [row for row, image_id in enumerate(self.ids) if image_id not in self.problems]


def cache_images(
    images: ImageSet,
    size: int,
    folder: Path,
    form: Form = "pixels",
    workers: int = 2,
) -> CachedImages:
    """Return the images resized to the area of a square of `size` pixels; the first call writes the cache, later ones map it.

    The file's name contains the size and a digest of the form and of the images' ids, file sizes and modification times: a
    changed image set gets a new file, another order of the images does not. A new file replaces those of other sizes. The form
    "pixels" is the fastest and takes at most 3 · size² bytes per image; "jpeg" (quality 95) takes about a sixth of that and has
    to be decoded at every access. The aspect is each image's own (`data.squares.resize_own_aspect`).

    Raises:
        UserError: the disk is full.
    """
    stored = images.select(sorted(images.ids))
    named = f"{len(images)}-{stored.digest(prefix=f'{form} own')[:16]}"
    pixels_file, about_file = (folder / f"{named}-{size}.{ending}" for ending in (form, "npz"))
    cached = _open_cache(images, pixels_file, about_file)
    if cached is None:  # trainings at the same time share what the first of them makes
        with locks.hold_lock_file(
            folder / ".caching", f"another process has cached images in {folder} for a day", wait=86_400
        ):
            cached = _open_cache(images, pixels_file, about_file)
            if cached is None:
                packed = threads.map_in_threads(partial(_pack, size, form), stored.paths, max(1, workers))
                shown = tqdm(
                    packed, total=len(images), desc=f"caching {size} px", unit="image", leave=False
                )
                ends, shapes, problems = _write_packed(stored, shown, pixels_file)
                with files.whole_file(about_file) as temporary, temporary.open("wb") as file:
                    np.savez(
                        file,
                        ends=ends,
                        shapes=shapes,
                        problems=np.frombuffer(json.dumps(problems).encode(), np.uint8),
                    )
                cached = _open_cache(images, pixels_file, about_file)
                for old in set(folder.glob(f"{named}-*")) - {pixels_file, about_file}:
                    with suppress(OSError):  # Windows removes no mapped file
                        old.unlink()
    if cached is None:
        raise RuntimeError(f"{pixels_file} cannot be read back")
    return cached


def _open_cache(images: ImageSet, pixels_file: Path, about_file: Path) -> CachedImages | None:
    """Map a cache; None if one of its two files is missing, or shorter than it was: a power cut may tear them."""
    try:
        with np.load(about_file) as about:
            ends = about["ends"]
            shapes = about["shapes"]
            problems = json.loads(about["problems"].tobytes())
        length = pixels_file.stat().st_size
        if length < int(ends[-1] if len(ends) else 0):
            return None
        # an empty file has no map
        content = np.memmap(pixels_file, np.uint8, mode="r") if length else np.zeros(0, np.uint8)
        place = {image_id: row for row, image_id in enumerate(sorted(images.ids))}
        places = np.array([place[image_id] for image_id in images.ids], np.int64)
        return CachedImages(
            images.ids,
            _Rows(content, ends, None if pixels_file.suffix == ".jpeg" else shapes, places),
            problems,
        )
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


@dataclass(frozen=True)
class _Rows:
    """Concatenated images: the one at place i ends at byte ends[i], exclusive, and is shapes[i] high and wide; None for JPEGs."""

    content: UInt8s
    ends: Int64s
    shapes: Int64s | None
    places: Int64s  # of each row

    def __getitem__(self, row: int) -> UInt8s:
        place = int(self.places[row])
        part = np.asarray(self.content[self.ends[place - 1] if place else 0 : self.ends[place]])
        if self.shapes is None:
            return decode.as_uint8(cv2.imdecode(part, cv2.IMREAD_COLOR_RGB))
        return part.reshape(*self.shapes[place].tolist(), 3)


def _write_packed(images: ImageSet, packed: Iterable[Packed], target: Path) -> Written:
    """Write the images one after the other, an unreadable one without bytes; return where each ends, its shape, and problems."""
    problems: dict[str, str] = {}
    ends = np.zeros(len(images), np.int64)
    shapes = np.zeros((len(images), 2), np.int64)
    with files.whole_file(target) as temporary, temporary.open("wb") as file:
        for row, made in enumerate(packed):
            if isinstance(made, str):
                problems[images.ids[row]] = made
            else:
                content, shapes[row] = made
                file.write(content)
            ends[row] = file.tell()
    return ends, shapes, problems


def _encode_jpeg(pixels: UInt8s) -> bytes:
    return bytes(cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes())


def _pack(size: int, form: Form, path: Path) -> Packed:
    """Read, resize and encode an image: in threads, since each of these releases the GIL."""
    try:
        pixels = squares.resize_own_aspect(decode.decode_rgb(path, short_side=size), size)
    except ImageError as error:
        return error.problem
    height, width = pixels.shape[:2]
    return _encode_jpeg(pixels) if form == "jpeg" else pixels.tobytes(), (height, width)
