"""Images resized once to squares and kept in one file, so that training never decodes a photo twice."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from data.decode import decode_rgb
from data.errors import ImageError
from data.files import whole_file
from data.images import ImageSet
from data.loader import resize_square


class Pixels(Protocol):
    """Rows of uint8 [size, size, 3]."""

    def __getitem__(self, row: int) -> NDArray[np.uint8]: ...


@dataclass(frozen=True)
class SquareImages:
    """`pixels` are squares by row, mapped from disk or decoded on demand; `problems` says by id what could not be read."""

    ids: list[str]
    pixels: Pixels
    problems: dict[str, str]

    def __len__(self) -> int:
        return len(self.ids)

    def readable(self) -> list[int]:
        """Rows of the images that could be read."""
        return [row for row, image_id in enumerate(self.ids) if image_id not in self.problems]


def cached_squares(images: ImageSet, size: int, folder: Path, workers: int = 2) -> SquareImages:
    """The images as squares, made on the first call and kept under `folder`; other images or sizes get other files."""
    digest = hashlib.sha256(str(size).encode())
    for image_id, path in zip(images.ids, images.paths, strict=True):
        state = path.stat()
        digest.update(f"{image_id}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    name = f"{len(images)}x{size}-{digest.hexdigest()[:16]}"
    pixels_file, problems_file = folder / f"{name}.npy", folder / f"{name}.json"
    if not problems_file.is_file():
        problems = _write(images, size, pixels_file, workers)
        with whole_file(problems_file) as temporary:
            temporary.write_text(json.dumps(problems, indent=1), encoding="utf-8")
    pixels = np.load(pixels_file, mmap_mode="r")
    return SquareImages(images.ids, pixels, json.loads(problems_file.read_text(encoding="utf-8")))


def decoded_squares(images: ImageSet, size: int) -> SquareImages:
    """The images as squares, decoded whenever they are asked for: slower, without a file.

    An image that cannot be read shows as plain grey: it is no class that edits could tell from noise, and step 02 lists it.
    """
    return SquareImages(images.ids, _Decoded(images.paths, size), {})


class _Decoded:
    def __init__(self, paths: list[Path], size: int) -> None:
        self.paths, self.size = paths, size

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        square = _square(self.size, self.paths[row])
        return np.full((self.size, self.size, 3), 128, np.uint8) if isinstance(square, str) else square


def _write(images: ImageSet, size: int, target: Path, workers: int) -> dict[str, str]:
    problems: dict[str, str] = {}
    with whole_file(target) as temporary, ThreadPoolExecutor(max(1, workers)) as pool:
        pixels = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=(len(images), size, size, 3))
        squares = pool.map(partial(_square, size), images.paths)  # decoding and resizing leave Python's lock alone
        for row, square in enumerate(tqdm(squares, total=len(images), desc=f"caching {size} px", unit="image", leave=False)):
            if isinstance(square, str):
                problems[images.ids[row]] = square
            else:
                pixels[row] = square
        pixels.flush()
    return problems


def _square(size: int, path: Path) -> NDArray[np.uint8] | str:
    try:
        return resize_square(decode_rgb(path, short_side=size), size)
    except ImageError as error:
        return error.problem
