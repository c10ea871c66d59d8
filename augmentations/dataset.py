"""Edited training images as tensors."""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from augmentations.composition import edit_image
from augmentations.randomness import generator_for
from augmentations.schedule import IntensitySchedule
from augmentations.settings import AugmentationSettings
from data.cache import SquareImages
from data.errors import UserError
from data.loader import resize_square

Key = tuple[int, int, int]  # epoch, row, repetition


class CachedOverlays:
    """Images to paste: rows of one or more caches, by id."""

    def __init__(self, *parts: tuple[SquareImages, Sequence[int]]) -> None:
        self._where = {images.ids[row]: (images, row) for images, rows in parts for row in rows}
        self.ids = list(self._where)

    def __call__(self, image_id: str) -> NDArray[np.uint8]:
        """The image [size, size, 3] uint8 of an id."""
        images, row = self._where[image_id]
        return np.asarray(images.pixels[row])


def overlay_material(classes: SquareImages, reserve: SquareImages, count: int) -> CachedOverlays:
    """What may be pasted while the first `count` images are classes: the reserve, and the images that are not classes yet."""
    waiting = [row for row in classes.readable_rows() if row >= count]
    return CachedOverlays((reserve, reserve.readable_rows()), (classes, waiting))


class EditedImages(Dataset[tuple[Tensor, int]]):
    """Edited training images.

    Item (epoch, row, repetition) is (uint8 [3, size, size], row): the cached image, edited for that epoch. Each repetition within
    the epoch has its own edits (MultiGrain's repeated augmentations). Pixels depend on (seed, epoch, image id, repetition) only.
    Bytes are a quarter of floats to send between processes: `normalize_pixels` makes the floats where the network is.

    Args:
        images: the cached images.
        settings: which edits, and how intense where there is no schedule.
        size: pixels a side.
        seed: of the edits.
        overlays: images to paste; None leaves out the edits that paste.
        schedule: the intensity by epoch.
    """

    def __init__(
        self,
        images: SquareImages,
        settings: AugmentationSettings,
        size: int,
        seed: int,
        overlays: CachedOverlays | None = None,
        schedule: IntensitySchedule | None = None,
    ) -> None:
        self.images, self.settings, self.size, self.seed = images, settings, size, seed
        self.overlays, self.schedule = overlays, schedule

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: Key) -> tuple[Tensor, int]:
        epoch, row, repetition = key
        rng = generator_for(self.seed, epoch, self.images.ids[row], repetition)
        settings = self.settings
        if self.schedule is not None:
            settings = settings.model_copy(update={"intensity": self.schedule.at(epoch)})
        edited = edit_image(np.asarray(self.images.pixels[row]), settings, rng, self.overlays)
        pixels = resize_square(edited.image, self.size)
        return torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1), row


class EpochBatches(Sampler[list[Key]]):
    """Batches of (epoch, row, 0) over several epochs in one stream, each epoch in its own order.

    One stream keeps the workers busy between epochs. The last, smaller batch of an epoch is kept unless it is one image. Each of
    several processes takes its part of every batch, so that together they see the same batches as one process would; a last batch
    with fewer than two images for each is left out.

    Args:
        rows: of the images.
        batch_size: images in a batch, of all processes together.
        first_epoch: the first epoch of the stream.
        last_epoch: the epoch before which the stream ends.
        seed: of the order.
        rank: this process's number.
        ranks: how many processes share the batches.
        whole: whether a last, smaller batch is left out where there is another; a compiled network would be compiled for it.

    Raises:
        UserError: no batch has two images for each process.
    """

    def __init__(
        self,
        rows: Sequence[int],
        batch_size: int,
        first_epoch: int,
        last_epoch: int,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        whole: bool = False,
    ) -> None:
        self.rows, self.batch_size, self.epochs, self.seed = np.array(rows), batch_size, range(first_epoch, last_epoch), seed
        self.rank, self.ranks, self.whole = rank, ranks, whole
        if min(batch_size, len(rows)) < 2 * ranks:
            raise UserError(
                f"batches of {batch_size} of the stage's {len(rows)} images have no two images for each of {ranks} process(es): "
                "raise batch_size, add images, or start fewer processes."
            )

    def batches_per_epoch(self) -> int:
        """How many batches an epoch has, the same for every process."""
        whole, rest = divmod(len(self.rows), self.batch_size)
        return whole + (rest >= 2 * self.ranks and not (self.whole and whole))

    def __len__(self) -> int:
        return self.batches_per_epoch() * len(self.epochs)

    def __iter__(self) -> Iterator[list[Key]]:
        for epoch in self.epochs:
            order = generator_for(self.seed, epoch, "order of the images").permutation(self.rows)
            for batch in range(self.batches_per_epoch()):
                rows = order[batch * self.batch_size : (batch + 1) * self.batch_size]
                yield [(epoch, int(row), 0) for row in np.array_split(rows, self.ranks)[self.rank]]


def normalize_pixels(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Make the network's input of pixels: (pixels / 255 − mean) / std.

    Args:
        pixels: uint8 [n, 3, h, w] on any device.
        mean: of each channel, of values in 0…1.
        std: standard deviation of each channel, of values in 0…1.

    Returns:
        float32 [n, 3, h, w] on the same device, in channels-last memory format.
    """
    constants = _normalizing_constants if torch.compiler.is_compiling() else _cached_constants  # an export sees them made
    scale, shift = constants(tuple(mean), tuple(std), pixels.device)
    as_bytes = pixels.contiguous(memory_format=torch.channels_last)  # a quarter of what it would move as floats
    return as_bytes.float().div_(scale).sub_(shift)


def _normalizing_constants(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """What pixels 0…255 are divided by, and what is then subtracted, [3, 1, 1] each."""
    scale = torch.tensor([255 * value for value in std], device=device)[:, None, None]
    shift = torch.tensor([m / s for m, s in zip(mean, std, strict=True)], device=device)[:, None, None]
    return scale, shift


@cache
def _cached_constants(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """The same, made and copied to a GPU once and not at each step."""
    with torch.inference_mode(False):
        return _normalizing_constants(mean, std, device)
