"""Pictures and archives that tests write."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import draw_picture, write_pictures


def draw(seed: int, width: int = 480, height: int = 360) -> Image.Image:
    """A drawn scene with the noise of a sensor."""
    drawn = Image.fromarray(draw_picture(np.random.default_rng(seed), 640)).resize((width, height), Image.Resampling.LANCZOS)
    noise = np.random.default_rng(seed).normal(0, 6, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(drawn) + noise, 0, 255).astype(np.uint8))


def draw_noise(seed: int, width: int = 40, height: int = 40) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8))


def write_images(folder: Path, count: int, prefix: str = "T", seed: int = 0) -> ImageSet:
    """Write drawn pictures into a folder and return all images in it."""
    list(write_pictures(folder, prefix, count, seed, workers=1))
    return find_images(folder)


def write_album(folder: Path) -> None:
    """Write four drawn pictures, and the third one at half its size."""
    third = write_images(folder, 4, "R", seed=1).paths[2]
    with Image.open(third) as image:
        image.resize((image.width // 2, image.height // 2)).save(folder / "small.jpg")


def encode(picture: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """Return the bytes of a picture's file."""
    content = io.BytesIO()
    picture.save(content, form, **options)
    return content.getvalue()


def decode(content: bytes) -> Image.Image:
    """Return the picture of a file's bytes, as RGB."""
    return Image.open(io.BytesIO(content)).convert("RGB")


def compress(picture: Image.Image, quality: int) -> Image.Image:
    """Return what a JPEG of a quality shows of a picture."""
    return decode(encode(picture, "JPEG", quality=quality))


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def write_tar(path: Path, files: Mapping[str, bytes], mode: str = "w") -> None:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
