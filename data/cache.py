"""A cache of resized images, in one file: training decodes each photo only once."""

import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TypeVar
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.files import whole_file
from image_copies.data.images import ImageSet
from image_copies.data.loader import resize_own_aspect, resize_square
from image_copies.data.pixels import as_uint8

IMAGES_PER_BLOCK = 2048

Made = TypeVar("Made")
Resize = Callable[[NDArray[np.uint8], int], NDArray[np.uint8]]
Written = tuple[NDArray[np.int64], NDArray[np.int64], dict[str, str]]  # ends [n], shapes [n, 2], problems by id


class Pixels(Protocol):
    """A sequence of RGB images, each uint8 [h, w, 3]."""

    def __getitem__(self, row: int) -> NDArray[np.uint8]: ...


@dataclass(frozen=True)
class CachedImages:
    """Resized images, memory-mapped.

    Attributes:
        ids: Image ids, one per row.
        pixels: RGB uint8 [h, w, 3] by row. The row of an unreadable image is zero or empty (form "pixels") or raises an error
            (form "jpeg").
        problems: What is wrong with each unreadable image, by image id.
    """

    ids: list[str]
    pixels: Pixels
    problems: dict[str, str]

    def __len__(self) -> int:
        return len(self.ids)

    def readable_rows(self) -> list[int]:
        """Return the rows of the images that could be read, ascending."""
        return [row for row, image_id in enumerate(self.ids) if image_id not in self.problems]


@dataclass(frozen=True)
class _Packed:
    """An image on its way into a cache.

    Attributes:
        content: Its bytes.
        shape: Its height and width.
    """

    content: bytes
    shape: tuple[int, int]


def cache_images(
    images: ImageSet,
    size: int,
    folder: Path,
    form: Literal["pixels", "jpeg"] = "pixels",
    workers: int = 2,
    aspect: Literal["own", "square"] = "own",
) -> CachedImages:
    """Return the images resized; the cache is written by the first call and mapped by later ones.

    The file's name contains a digest of the arguments and of the images' ids, file sizes and modification times: a changed image
    set gets a new file.

    Args:
        images: The images to resize.
        size: Side in pixels of a square as large as each image becomes.
        folder: Where the cache is kept.
        form: "pixels" is the fastest and takes at most 3 · size² bytes per image; "jpeg" (quality 95) takes about a tenth of that
            and has to be decoded at every access.
        workers: Number of decoding threads.
        aspect: "own" keeps each image's aspect (`data.loader.resize_own_aspect`); "square" squashes all images to squares.

    Raises:
        UserError: the disk is full.
    """
    about = f"{size} {form}" if aspect == "square" else f"{size} {form} {aspect}"
    name = f"{len(images)}x{size}-{images.digest(prefix=about)[:16]}"
    pixels_file, about_file = folder / f"{name}.{form}", folder / f"{name}.npz"
    cached = _open_cache(images, size, pixels_file, about_file, aspect)
    if cached is None:
        resize = partial(_read_resized, size, resize_own_aspect if aspect == "own" else resize_square)
        if form == "pixels" and aspect == "square":
            squares = _make_in_threads(images, size, resize, max(1, workers))
            ends, shapes, problems = _write_squares(images, size, squares, pixels_file)
        else:
            pack = partial(_pack, resize, _encode_jpeg if form == "jpeg" else _get_bytes)
            ends, shapes, problems = _write_packed(images, _make_in_threads(images, size, pack, max(1, workers)), pixels_file)
        with whole_file(about_file) as temporary, temporary.open("wb") as file:
            np.savez(file, ends=ends, shapes=shapes, problems=np.frombuffer(json.dumps(problems).encode(), np.uint8))
        cached = _open_cache(images, size, pixels_file, about_file, aspect)
    if cached is None:
        raise RuntimeError(f"{pixels_file} cannot be read back")
    return cached


def _open_cache(
    images: ImageSet, size: int, pixels_file: Path, about_file: Path, aspect: Literal["own", "square"]
) -> CachedImages | None:
    """Map a cache; None if one of its two files is missing, or shorter than it was: a power cut may tear them."""
    try:
        with np.load(about_file) as about:
            ends, shapes, problems = about["ends"], about["shapes"], json.loads(about["problems"].tobytes())
        if pixels_file.suffix == ".pixels" and aspect == "square":
            squares = np.load(pixels_file, mmap_mode="r")
            return CachedImages(images.ids, squares, problems) if squares.shape == (len(images), size, size, 3) else None
        length = pixels_file.stat().st_size
        if length < int(ends[-1] if len(ends) else 0):
            return None
        content = np.memmap(pixels_file, np.uint8, mode="r") if length else np.zeros(0, np.uint8)  # an empty file has no map
        if pixels_file.suffix == ".pixels":
            return CachedImages(images.ids, _OwnShapes(content, ends, shapes), problems)
        return CachedImages(images.ids, _Jpegs(content, ends), problems)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


class _Jpegs:
    """Concatenated JPEGs: row i ends at byte ends[i], exclusive."""

    def __init__(self, content: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self.content, self.ends = content, ends

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        start = self.ends[row - 1] if row else 0
        return as_uint8(cv2.imdecode(np.asarray(self.content[start : self.ends[row]]), cv2.IMREAD_COLOR_RGB))


class _OwnShapes:
    """Concatenated pixels: row i ends at byte ends[i], exclusive, and has the height and width shapes[i] [2]."""

    def __init__(self, content: NDArray[np.uint8], ends: NDArray[np.int64], shapes: NDArray[np.int64]) -> None:
        self.content, self.ends, self.shapes = content, ends, shapes

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        start = self.ends[row - 1] if row else 0
        height, width = self.shapes[row].tolist()
        return np.asarray(self.content[start : self.ends[row]]).reshape(height, width, 3)


def _write_squares(images: ImageSet, size: int, resized: Iterator[NDArray[np.uint8] | str], target: Path) -> Written:
    """Write one array [n, size, size, 3] in NumPy's format."""
    problems: dict[str, str] = {}
    shape = (size, size, 3)
    with whole_file(target) as temporary, temporary.open("wb") as file:  # not memory-mapped: a full disk would kill the process
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(images), *shape)}
        np.lib.format.write_array_header_1_0(file, header)
        for row, square in enumerate(resized):
            if isinstance(square, str):
                problems[images.ids[row]] = square
            file.write(bytes(math.prod(shape)) if isinstance(square, str) else square.tobytes())
    return np.zeros(0, np.int64), np.zeros((0, 2), np.int64), problems


def _write_packed(images: ImageSet, packed: Iterator[_Packed | str], target: Path) -> Written:
    """Write the images one after the other, an unreadable one without bytes; return where each ends, its shape, and problems."""
    problems: dict[str, str] = {}
    ends, shapes = np.zeros(len(images), np.int64), np.zeros((len(images), 2), np.int64)
    with whole_file(target) as temporary, temporary.open("wb") as file:
        for row, made in enumerate(packed):
            if isinstance(made, str):
                problems[images.ids[row]] = made
            else:
                file.write(made.content)
                shapes[row] = made.shape
            ends[row] = file.tell()
    return ends, shapes, problems


def _encode_jpeg(pixels: NDArray[np.uint8]) -> bytes:
    return bytes(cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes())


def _get_bytes(pixels: NDArray[np.uint8]) -> bytes:
    return pixels.tobytes()


def _make_in_threads(images: ImageSet, size: int, make: Callable[[Path], Made | str], workers: int) -> Iterator[Made | str]:
    """Yield, in order, what is made of each image or the reason why it could not be read; IMAGES_PER_BLOCK at most wait."""
    with (
        ThreadPoolExecutor(workers) as pool,  # threads: decoding, resizing and encoding release the GIL
        tqdm(total=len(images), desc=f"caching {size} px", unit="image", leave=False) as bar,
    ):
        for start in range(0, len(images), IMAGES_PER_BLOCK):
            for made in pool.map(make, images.paths[start : start + IMAGES_PER_BLOCK]):
                bar.update()
                yield made


def _read_resized(size: int, resize: Resize, path: Path) -> NDArray[np.uint8] | str:
    try:
        return resize(decode_rgb(path, short_side=size), size)
    except ImageError as error:
        return error.problem


def _pack(
    read: Callable[[Path], NDArray[np.uint8] | str], encode: Callable[[NDArray[np.uint8]], bytes], path: Path
) -> _Packed | str:
    """Read and encode one image; or return the reason why it could not be read."""
    pixels = read(path)
    return pixels if isinstance(pixels, str) else _Packed(encode(pixels), pixels.shape[:2])
