"""A cache of images resized to squares, in one file: training decodes each photo only once."""

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from data.decode import decode_rgb
from data.errors import ImageError
from data.files import whole_file
from data.images import ImageSet
from data.loader import resize_square
from data.pixels import as_uint8

IMAGES_PER_BLOCK = 2048


class Pixels(Protocol):
    """A sequence of RGB images, each uint8 [size, size, 3]."""

    def __getitem__(self, row: int) -> NDArray[np.uint8]: ...


@dataclass(frozen=True)
class SquareImages:
    """Square images, memory-mapped.

    Attributes:
        ids: image ids, one per row.
        pixels: RGB uint8 [size, size, 3] by row. The row of an unreadable image is zero (form "pixels") or raises an error
            (form "jpeg").
        problems: what is wrong with each unreadable image, by image id.
    """

    ids: list[str]
    pixels: Pixels
    problems: dict[str, str]

    def __len__(self) -> int:
        return len(self.ids)

    def readable_rows(self) -> list[int]:
        """Return the rows of the images that could be read, ascending."""
        return [row for row, image_id in enumerate(self.ids) if image_id not in self.problems]


def cache_squares(
    images: ImageSet, size: int, folder: Path, form: Literal["pixels", "jpeg"] = "pixels", workers: int = 2
) -> SquareImages:
    """Return the images as squares; the cache is written by the first call and mapped by later ones.

    The file's name contains a digest of the arguments and of the images' ids, file sizes and modification times: a changed image
    set gets a new file.

    Args:
        images: the images to resize.
        size: side of the squares in pixels.
        folder: where the cache is kept.
        form: "pixels" is the fastest and takes 3 · size² bytes per image; "jpeg" (quality 95) takes about a tenth of that and has
            to be decoded at every access.
        workers: number of decoding threads.

    Raises:
        UserError: the disk is full.
    """
    name = f"{len(images)}x{size}-{images.digest(prefix=f'{size} {form}')[:16]}"
    squares_file, about_file = folder / f"{name}.{form}", folder / f"{name}.npz"
    squares = _open_squares(images, size, squares_file, about_file)
    if squares is None:
        write = _write_pixels if form == "pixels" else _write_jpegs
        ends, problems = write(images, size, squares_file, max(1, workers))
        with whole_file(about_file) as temporary, temporary.open("wb") as file:
            np.savez(file, ends=ends, problems=np.frombuffer(json.dumps(problems).encode(), np.uint8))
        squares = _open_squares(images, size, squares_file, about_file)
    if squares is None:
        raise RuntimeError(f"{squares_file} cannot be read back")
    return squares


def _open_squares(images: ImageSet, size: int, squares_file: Path, about_file: Path) -> SquareImages | None:
    """Map a cache; None if one of its two files is missing, or shorter than it was: a power cut may tear them."""
    try:
        with np.load(about_file) as about:
            ends, problems = about["ends"], json.loads(about["problems"].tobytes())
        if squares_file.suffix == ".pixels":
            pixels = np.load(squares_file, mmap_mode="r")
            return SquareImages(images.ids, pixels, problems) if pixels.shape == (len(images), size, size, 3) else None
        length = squares_file.stat().st_size
        if length < int(ends[-1] if len(ends) else 0):
            return None
        content = np.memmap(squares_file, np.uint8, mode="r") if length else np.zeros(0, np.uint8)  # an empty file has no map
        return SquareImages(images.ids, _Jpegs(content, ends), problems)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


class _Jpegs:
    """Concatenated JPEGs: row i ends at byte ends[i], exclusive."""

    def __init__(self, content: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self.content, self.ends = content, ends

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        start = self.ends[row - 1] if row else 0
        return as_uint8(cv2.imdecode(np.asarray(self.content[start : self.ends[row]]), cv2.IMREAD_COLOR_RGB))


def _write_pixels(images: ImageSet, size: int, target: Path, workers: int) -> tuple[NDArray[np.int64], dict[str, str]]:
    problems: dict[str, str] = {}
    shape = (size, size, 3)
    with whole_file(target) as temporary, temporary.open("wb") as file:  # not memory-mapped: a full disk would kill the process
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(images), *shape)}
        np.lib.format.write_array_header_1_0(file, header)
        for row, square in enumerate(_squares(images, size, workers)):
            if isinstance(square, str):
                problems[images.ids[row]] = square
            file.write(bytes(math.prod(shape)) if isinstance(square, str) else square.tobytes())
    return np.zeros(0, np.int64), problems


def _write_jpegs(images: ImageSet, size: int, target: Path, workers: int) -> tuple[NDArray[np.int64], dict[str, str]]:
    problems: dict[str, str] = {}
    ends = np.zeros(len(images), np.int64)
    with whole_file(target) as temporary, temporary.open("wb") as file:
        for row, square in enumerate(_squares(images, size, workers)):
            if isinstance(square, str):
                problems[images.ids[row]] = square
            else:
                file.write(cv2.imencode(".jpg", square[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes())
            ends[row] = file.tell()
    return ends, problems


def _squares(images: ImageSet, size: int, workers: int) -> Iterator[NDArray[np.uint8] | str]:
    """Yield, in order, each image's square or the reason why it could not be read; at most `IMAGES_PER_BLOCK` are in memory."""
    with (
        ThreadPoolExecutor(workers) as pool,  # threads: decoding and resizing release the GIL
        tqdm(total=len(images), desc=f"caching {size} px", unit="image", leave=False) as bar,
    ):
        for start in range(0, len(images), IMAGES_PER_BLOCK):
            for square in pool.map(partial(_square, size), images.paths[start : start + IMAGES_PER_BLOCK]):
                bar.update()
                yield square


def _square(size: int, path: Path) -> NDArray[np.uint8] | str:
    try:
        return resize_square(decode_rgb(path, short_side=size), size)
    except ImageError as error:
        return error.problem
