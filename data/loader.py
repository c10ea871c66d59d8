"""Images as batches of tensors, unedited."""

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from data.decode import decode_rgb
from data.errors import ImageError
from data.images import ImageSet


class CleanImages(Dataset[tuple[Tensor, bool]]):
    """Item i: (float32 [3, size, size], normalised; whether the image could be read). An unreadable image is all zero."""

    def __init__(self, images: ImageSet, size: int, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.images, self.size, self.mean, self.std = images, size, mean, std

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, bool]:
        try:
            pixels = decode_rgb(self.images.paths[index], short_side=self.size)
        except ImageError:
            return torch.zeros(3, self.size, self.size), False
        return to_tensor(resize_square(pixels, self.size), self.mean, self.std), True


def resize_square(pixels: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """[h, w, 3] → [size, size, 3], the shape not kept, as the competition's code did; by areas when it shrinks."""
    shrinks = min(pixels.shape[:2]) > size
    return cv2.resize(pixels, (size, size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)  # type: ignore[return-value]


def to_tensor(pixels: NDArray[np.uint8], mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 [h, w, 3] → float32 [3, h, w], 0…1, less the mean, by the standard deviation."""
    values = torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32)).div_(255)
    return values.sub_(torch.tensor(mean)[:, None, None]).div_(torch.tensor(std)[:, None, None])
