"""How an image becomes a tensor when it is tested: squeezed to a square, its centre, or whole with its own shape."""

from collections.abc import Iterator
from typing import Literal, get_args

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from data.decode import decode_rgb
from data.errors import ImageError, UserError
from data.images import ImageSet
from data.loader import resize_square
from data.pixels import as_uint8

TestProtocol = Literal["square", "center_crop", "square_crop", "long_side"]
SHORT_SIDE_RATIO = 256 / 224  # the short side before the centre is cut out, as ImageNet's test protocol has it


class PreprocessedImages(Dataset[tuple[Tensor, bool]]):
    """Images as the network sees them in a test.

    Item i is (uint8 [3, h, w], whether the image could be read); an unreadable image is all zero [3, size, size].

    Args:
        images: the images.
        size: pixels.
        protocol: "square": [3, size, size], shape not kept. "center_crop": [3, size, size], the centre of the image with its
            short side at 256/224 of `size` (MultiGrain, section 4.1). "square_crop": [3, size, size], the centre of the image
            squeezed to a square of 256/224 of `size` (IDEAL, section 5.1). "long_side": the whole image with its long side at
            `size` and its shape kept; its batches need `SameShapeBatches`.

    Raises:
        UserError: another protocol.
    """

    def __init__(self, images: ImageSet, size: int, protocol: TestProtocol = "square") -> None:
        if protocol not in get_args(TestProtocol):
            raise UserError(f"test protocol {protocol!r}: choose one of {', '.join(get_args(TestProtocol))}.")
        self.images, self.size, self.protocol = images, size, protocol

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, bool]:
        try:
            pixels = decode_rgb(self.images.paths[index], short_side=_decoded_short_side(self.size, self.protocol))
        except ImageError:
            return torch.zeros(3, self.size, self.size, dtype=torch.uint8), False
        shown = preprocess(pixels, self.size, self.protocol)
        return torch.from_numpy(np.ascontiguousarray(shown)).permute(2, 0, 1), True


class SameShapeBatches(Sampler[list[int]]):
    """Batches of rows whose images have one shape.

    Every row comes once; rows of a shape come in order, shapes in the order in which they first appear.

    Args:
        shapes: (h, w) of every row as the network sees it, from `input_shapes`.
        batch_size: rows in a batch at most.
    """

    def __init__(self, shapes: list[tuple[int, int]], batch_size: int) -> None:
        groups: dict[tuple[int, int], list[int]] = {}
        for row, shape in enumerate(shapes):
            groups.setdefault(shape, []).append(row)
        self.batches = [rows[first : first + batch_size] for rows in groups.values() for first in range(0, len(rows), batch_size)]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches)


def input_shapes(dataset: PreprocessedImages) -> list[tuple[int, int]]:
    """The shape (h, w) of each item; images are decoded only where their shape depends on it ("long_side")."""
    size = dataset.size
    if dataset.protocol != "long_side":
        return [(size, size)] * len(dataset)
    return [tuple(dataset[row][0].shape[1:]) for row in range(len(dataset))]  # type: ignore[misc]  # [3, h, w] has a height and a width


def preprocess(pixels: NDArray[np.uint8], size: int, protocol: TestProtocol) -> NDArray[np.uint8]:
    """An image [h, w, 3] as the network sees it, resized by areas if it shrinks; `protocol` as for `PreprocessedImages`."""
    if protocol == "square":
        return resize_square(pixels, size)
    height, width = pixels.shape[:2]
    if protocol == "long_side":
        return _resize(pixels, size / max(height, width))
    before = round(size * SHORT_SIDE_RATIO)
    resized = resize_square(pixels, before) if protocol == "square_crop" else _resize(pixels, before / min(height, width))
    top, left = (resized.shape[0] - size) // 2, (resized.shape[1] - size) // 2
    return resized[top : top + size, left : left + size]


def _resize(pixels: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    width, height = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return as_uint8(cv2.resize(pixels, (width, height), interpolation=interpolation))


def _decoded_short_side(size: int, protocol: TestProtocol) -> int:
    """The short side that decoding must keep so that nothing is enlarged afterwards: at most the long side wanted."""
    return round(size * SHORT_SIDE_RATIO) if protocol in ("center_crop", "square_crop") else size
