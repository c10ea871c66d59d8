"""Images for a decoder on the network's device: plain JPEG files as bytes; everything else is decoded here, as always.

Plain is what such a decoder and this project's give nearly the same pixels of: 8 bits, YCbCr, baseline, upright and whole. An
orientation, CMYK, grey or RGB JPEGs, progressive ones (which nvJPEG decodes one after the other, partly on the CPU), huge and
damaged ones, and all other formats are decoded by `data.decode`.
"""

import io
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import ExifTags, Image
from torch import Tensor

from image_copies.data.decode import MAX_FILE_BYTES, MIN_SIDE_PIXELS, check_scans
from image_copies.data.loader import FileContents, load_squares

MAX_DEVICE_PIXELS = 2**25  # a larger image would take more than 500 MB of a device: three bytes and three floats a pixel
Squares = dict[int, tuple[Tensor, bool]]  # by size: RGB uint8 [3, size, size], and whether the image could be read


@dataclass(frozen=True)
class JpegFile:
    """A JPEG file to be decoded elsewhere."""

    content: bytes
    height: int  # pixels
    width: int  # pixels


@dataclass(frozen=True)
class EncodedBatch:
    """A batch of images, plain JPEG files among them as bytes."""

    rows: list[int]  # places of the JPEG files in the batch, ascending
    content: Tensor  # uint8 [b], the bytes of the JPEG files one after the other
    lengths: list[int]  # length of each in bytes
    shapes: list[tuple[int, int]]  # height and width of each in pixels
    # by size, of the others: uint8 [m, 3, size, size], and which could be read, bool [m]
    squares: dict[int, tuple[Tensor, Tensor]]

    def __len__(self) -> int:
        return len(self.rows) + len(next(iter(self.squares.values()))[1])

    @property
    def files(self) -> list[Tensor]:
        """The JPEG files, uint8 [length] each."""
        return list(torch.split(self.content, self.lengths))


class EncodedImages(FileContents[JpegFile | Squares]):
    """Unedited images: plain JPEG files as they are, and the squares of all others, as of `SquaresOfSizes`."""

    def load(self, content: bytes) -> JpegFile | Squares:
        """Return a plain JPEG file, or the squares by size."""
        return find_plain_jpeg(content) or load_squares(content, self.sizes)


def join_encoded(items: Sequence[JpegFile | Squares], sizes: Collection[int]) -> EncodedBatch:
    """Make a batch of items of `EncodedImages`; `sizes` are those of its squares."""
    files = {row: item for row, item in enumerate(items) if isinstance(item, JpegFile)}
    decoded = [item for item in items if not isinstance(item, JpegFile)]
    squares = {}
    for size in sizes:
        pixels = [torch.zeros(0, 3, size, size, dtype=torch.uint8), *(item[size][0][None] for item in decoded)]
        squares[size] = torch.cat(pixels), torch.tensor([item[size][1] for item in decoded], dtype=torch.bool)
    content = torch.frombuffer(bytearray(b"".join(file.content for file in files.values()) + b"\0"), dtype=torch.uint8)[:-1]
    lengths = [len(file.content) for file in files.values()]
    return EncodedBatch(list(files), content, lengths, [(file.height, file.width) for file in files.values()], squares)


def find_plain_jpeg(content: bytes) -> JpegFile | None:
    """Return an encoded image that is a plain JPEG (see above); None for anything else."""
    if not content.startswith(b"\xff\xd8\xff") or content.rfind(b"\xff\xd9") < content.rfind(b"\xff\xda"):
        return None  # not a JPEG, or it ends within its pixels
    if len(content) > MAX_FILE_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
                check_scans(image, Path("<bytes>"), content)
                return JpegFile(content, image.height, image.width) if _is_plain(image) else None
    except Exception:  # `data.decode` says what is wrong with it
        return None


def _is_plain(image: Image.Image) -> bool:
    components = tuple(component[0] for component in getattr(image, "layer", ()))
    return (
        image.format == "JPEG"  # not MPO, of several pictures
        and image.mode == "RGB"
        and components != tuple(b"RGB")
        and (components == (1, 2, 3) or "jfif" in image.info)
        and image.info.get("adobe_transform", 1) == 1
        and not image.info.get("progressive")
        and min(image.size) >= MIN_SIDE_PIXELS
        and image.width * image.height <= MAX_DEVICE_PIXELS
        and image.getexif().get(ExifTags.Base.Orientation, 1) == 1
    )
