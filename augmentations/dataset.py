"""Data sets of edited training images."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from image_copies.data.arrays import UInt8s
from image_copies.data.cache import CachedImages
from image_copies.data.squares import resize_square

from .composition import draw_record, replay
from .randomness import generator_for
from .settings import AugmentationSettings

Key = tuple[int, int, int]  # epoch, row, repetition
# more than any pass has of one image; later passes count on from there
MAX_REPETITIONS_PER_PASS = 1_000_000


class CachedOverlays:
    """Images to paste, by id: rows of one or more caches."""

    def __init__(self, *parts: tuple[CachedImages, Sequence[int]]) -> None:
        self._where = {images.ids[row]: (images, row) for images, rows in parts for row in rows}
        self.ids = list(self._where)

    def __call__(self, image_id: str) -> UInt8s:
        """Return an image, RGB uint8 [size, size, 3]."""
        images, row = self._where[image_id]
        return np.asarray(images.pixels[row])


def overlay_material(classes: CachedImages, reserve: CachedImages, count: int) -> CachedOverlays:
    """Return what may be pasted while the first `count` images are classes: the reserve, and images that are not classes yet."""
    waiting = [row for row in classes.readable_rows() if row >= count]
    return CachedOverlays((reserve, reserve.readable_rows()), (classes, waiting))


class EditedImages(Dataset[tuple[Tensor, int]]):
    """Edited training images.

    Item (epoch, row, repetition) is (RGB uint8 [3, size, size], row): the cached image, edited for that epoch. Each repetition
    within an epoch has its own edits (MultiGrain's repeated augmentations). Pixels depend on (seed, epoch, image id, repetition)
    only. They stay uint8, a quarter of the traffic between processes; `normalize_pixels` converts them on the network's device.

    Without overlays, edits that paste are skipped.
    """

    def __init__(
        self,
        images: CachedImages,
        settings: AugmentationSettings,
        size: int,
        seed: int,
        overlays: CachedOverlays | None = None,
    ) -> None:
        self.images = images
        self.settings = settings
        self.size = size
        self.seed = seed
        self.overlays = overlays

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: Key) -> tuple[Tensor, int]:
        epoch, row, repetition = key
        image = np.asarray(self.images.pixels[row])
        rng = generator_for(self.seed, epoch, self.images.ids[row], repetition)
        record = draw_record(self.settings, rng, self.overlays.ids if self.overlays else ())
        edited = replay(image, record, self.overlays) if record else image
        return torch.from_numpy(np.ascontiguousarray(resize_square(edited, self.size))).permute(
            2, 0, 1
        ), row


def normalize_pixels(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalise RGB uint8 [n, 3, h, w] to float32 in channels-last: (pixels / 255 − mean) / std, both for values in 0…1."""
    # an export must see their creation
    constants = _normalizing_constants if torch.compiler.is_compiling() else _cached_constants
    scale, shift = constants(tuple(mean), tuple(std), pixels.device)
    # moves a quarter of the bytes that floats would
    as_bytes = pixels.contiguous(memory_format=torch.channels_last)
    return as_bytes.float().div_(scale).sub_(shift)


def _normalizing_constants(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the divisor of pixels 0…255 and what is subtracted afterwards, each [3, 1, 1]."""
    scale = torch.tensor([255 * value for value in std], device=device)[:, None, None]
    shift = torch.tensor([m / s for m, s in zip(mean, std, strict=True)], device=device)[:, None, None]
    return scale, shift


@cache
def _cached_constants(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the same constants, created and copied to the device only once."""
    with torch.inference_mode(False):
        return _normalizing_constants(mean, std, device)
