"""Images resized once to squares and kept in one file, so that training decodes no photo twice."""

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

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

IMAGES_IN_MEMORY = 2048


class Pixels(Protocol):
    """Rows of uint8 [size, size, 3]."""

    def __getitem__(self, row: int) -> NDArray[np.uint8]: ...


@dataclass(frozen=True)
class SquareImages:
    """Square images, mapped from disk.

    Attributes:
        ids: of the images, in the order of the rows.
        pixels: uint8 [size, size, 3] by row; zero (as pixels) or not decodable (as JPEG) for an unreadable image.
        problems: what is wrong with each unreadable image, by its id.
    """

    ids: list[str]
    pixels: Pixels
    problems: dict[str, str]

    def __len__(self) -> int:
        return len(self.ids)

    def readable(self) -> list[int]:
        """Rows of the images that could be read."""
        return [row for row, image_id in enumerate(self.ids) if image_id not in self.problems]


def cached_squares(
    images: ImageSet, size: int, folder: Path, form: Literal["pixels", "jpeg"] = "pixels", workers: int = 2
) -> SquareImages:
    """The images as squares, made on the first call and kept under `folder`.

    The file's name is a digest of ids, sizes and modification times of the images, and of the arguments: other images get another
    file.

    Args:
        images: what to resize.
        size: pixels a side.
        folder: where the cache is kept.
        form: "pixels" is the fastest and takes 3 · size² bytes an image; "jpeg" (quality 95) takes about a tenth of that, and the
            time of decoding it.
        workers: threads that decode.
    """
    name = f"{len(images)}x{size}-{images.digest(prefix=f'{size} {form}')[:16]}"
    squares_file, about_file = folder / f"{name}.{form}", folder / f"{name}.npz"
    if not (_holds_something(about_file) and squares_file.is_file()):
        write = _write_pixels if form == "pixels" else _write_jpegs
        ends, problems = write(images, size, squares_file, max(1, workers))
        with whole_file(about_file) as temporary, temporary.open("wb") as file:
            np.savez(file, ends=ends, problems=np.frombuffer(json.dumps(problems).encode(), np.uint8))
    with np.load(about_file) as about:
        ends, problems = about["ends"], json.loads(about["problems"].tobytes())
    if form == "pixels":
        return SquareImages(images.ids, np.load(squares_file, mmap_mode="r"), problems)
    empty = squares_file.stat().st_size == 0  # not one image could be read: an empty file cannot be mapped
    content = np.zeros(0, np.uint8) if empty else np.memmap(squares_file, np.uint8, mode="r")
    return SquareImages(images.ids, _Jpegs(content, ends), problems)


def _holds_something(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


class _Jpegs:
    """Rows of a file of JPEGs one after the other; row i ends at ends[i]."""

    def __init__(self, content: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self.content, self.ends = content, ends

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        start = self.ends[row - 1] if row else 0
        return as_uint8(cv2.imdecode(np.asarray(self.content[start : self.ends[row]]), cv2.IMREAD_COLOR_RGB))


def _write_pixels(images: ImageSet, size: int, target: Path, workers: int) -> tuple[NDArray[np.int64], dict[str, str]]:
    problems: dict[str, str] = {}
    shape = (size, size, 3)
    with whole_file(target) as temporary, temporary.open("wb") as file:  # not mapped: a full disk would kill the process
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
    """Squares in order, or why an image could not be read; a few thousand are in memory at most."""
    with (
        ThreadPoolExecutor(workers) as pool,  # decoding and resizing leave Python's lock alone
        tqdm(total=len(images), desc=f"caching {size} px", unit="image", leave=False) as bar,
    ):
        for start in range(0, len(images), IMAGES_IN_MEMORY):
            for square in pool.map(partial(_square, size), images.paths[start : start + IMAGES_IN_MEMORY]):
                bar.update()
                yield square


def _square(size: int, path: Path) -> NDArray[np.uint8] | str:
    try:
        return resize_square(decode_rgb(path, short_side=size), size)
    except ImageError as error:
        return error.problem
