"""Test-time preprocessing: the image squeezed to a square, its centre crop, or whole with its aspect ratio."""

from typing import Literal, get_args

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from .arrays import UInt8s
from .decode import as_uint8, decode_rgb
from .errors import ImageError, UserError
from .images import ImageSet
from .remote import map_files
from .squares import read_or_nothing, resize_square

TestProtocol = Literal["square", "center_crop", "square_crop", "long_side"]
# short side before the centre crop per side of the crop, as in ImageNet's test protocol
SHORT_SIDE_RATIO = 256 / 224


class PreprocessedImages(Dataset[tuple[Tensor, bool]]):
    """Unedited images preprocessed for testing.

    Item i is (RGB uint8 [3, h, w], whether the image could be read); an unreadable image is all zero, [3, size, size]. Pixels
    stay uint8, a quarter of the traffic between processes; `augmentations.dataset.normalize_pixels` converts them on the
    network's device. The protocols:

    - "square": the whole image resized to [3, size, size], ignoring the aspect ratio.
    - "center_crop": [3, size, size], the centre crop of the image resized to a short side of 256/224 · `size` (MultiGrain,
      section 4.1).
    - "square_crop": [3, size, size], the centre crop of the image squeezed to a square of 256/224 · `size` (IDEAL, section 5.1).
    - "long_side": the whole image resized to a long side of `size`, keeping the aspect ratio.

    Raises:
        UserError: the protocol is none of these.
    """

    def __init__(self, images: ImageSet, size: int, protocol: TestProtocol = "square") -> None:
        if protocol not in get_args(TestProtocol):
            raise UserError(
                f"test protocol {protocol!r}: choose one of {', '.join(get_args(TestProtocol))}."
            )
        self.images = images
        self.size = size
        self.protocol = protocol

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, bool]:
        return self._load(read_or_nothing(self.images.paths[index]))

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, bool]]:
        """Return several items: torch's loader asks for those of a batch at once, whose files a store sends several at a time."""
        return [
            self._load(content)
            for content in map_files(read_or_nothing, [self.images.paths[index] for index in indices])
        ]

    def _load(self, content: bytes) -> tuple[Tensor, bool]:
        try:
            pixels = decode_rgb(content, short_side=_decoded_short_side(self.size, self.protocol))
        except ImageError:
            return torch.zeros(3, self.size, self.size, dtype=torch.uint8), False
        shown = preprocess(pixels, self.size, self.protocol)
        return torch.from_numpy(np.ascontiguousarray(shown)).permute(2, 0, 1), True


def preprocess(pixels: UInt8s, size: int, protocol: TestProtocol) -> UInt8s:
    """Preprocess an image, RGB [h, w, 3], as `PreprocessedImages` does, by areas where it shrinks, bilinearly where it grows."""
    if protocol == "square":
        return resize_square(pixels, size)
    height, width = pixels.shape[:2]
    if protocol == "long_side":
        return _resize(pixels, size / max(height, width))
    before = round(size * SHORT_SIDE_RATIO)
    resized = (
        resize_square(pixels, before)
        if protocol == "square_crop"
        else _resize(pixels, before / min(height, width))
    )
    top = (resized.shape[0] - size) // 2
    left = (resized.shape[1] - size) // 2
    return resized[top : top + size, left : left + size]


def _resize(pixels: UInt8s, scale: float) -> UInt8s:
    width = max(1, round(pixels.shape[1] * scale))
    height = max(1, round(pixels.shape[0] * scale))
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return as_uint8(cv2.resize(pixels, (width, height), interpolation=interpolation))


def _decoded_short_side(size: int, protocol: TestProtocol) -> int:
    """Return the short side in pixels that decoding must preserve, so that nothing is enlarged afterwards."""
    return round(size * SHORT_SIDE_RATIO) if protocol in ("center_crop", "square_crop") else size
