"""Folders of procedural pictures, drawn on all cores and the same on every machine."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from image_copies.data.cores import map_on_cores
from image_copies.data.procedural.pictures import draw_picture


def write_pictures(folder: Path, prefix: str, count: int, seed: int, workers: int | None = None) -> Iterator[Path]:
    """Write `count` pictures `<prefix>000000.jpg`, … (JPEG quality 90) into `folder`; yield each path once written.

    A picture depends on (seed, prefix, number) only. `workers` are processes; None for one per core.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write = partial(_write_picture, folder, prefix, seed)
    yield from map_on_cores(write, range(count), workers)


def _write_picture(folder: Path, prefix: str, seed: int, number: int) -> Path:
    picture = draw_picture(np.random.default_rng([seed, *prefix.encode(), number]))
    path = folder / f"{prefix}{number:06d}.jpg"
    Image.fromarray(picture).save(path, quality=90)
    return path
