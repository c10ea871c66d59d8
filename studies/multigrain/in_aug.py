"""IN-aug: augmented copies of training images, for choosing a pooling exponent (MultiGrain, section 4.2; ICLR, section 3.5)."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from image_copies.augmentations.composition import edit_image
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.arrays import Int64s
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.images import ImageSet
from image_copies.data.labels import LabelledImages
from image_copies.data.squares import resize_square, shrink

COPY_EDITS = AugmentationSettings(family="multigrain_full")


@dataclass(frozen=True)
class InAug:
    """A retrieval set of augmented copies: each copy's answers are the other copies of its image."""

    sources: ImageSet
    # int64 [n · copies]; copy i is made from sources[groups[i]]: 0, 0, 0, 0, 0, 1, …
    groups: Int64s
    copies: int
    seed: int


def choose_in_aug(training: LabelledImages, seed: int, count: int = 2000, copies: int = 5) -> InAug:
    """Choose readable training images for IN-aug, evenly over the classes.

    All are taken if there are fewer than `count`; the paper takes 2,000 of ImageNet, two per class, and 5 copies of each.

    Raises:
        UserError: fewer than two images can be read.
    """
    images = training.images
    order = generator_for(seed, 0, "IN-aug").permutation(len(images))
    # of the same class, in this order
    preceding = pd.Series(order).groupby(training.labels[order]).cumcount()
    order = order[np.argsort(preceding.to_numpy(), kind="stable")]
    chosen = list(islice((row for row in order.tolist() if _is_readable(images, row)), count))
    if len(chosen) < 2:
        raise UserError(
            f"choosing p* needs at least two training images that can be read; found {len(chosen)} of {len(images)}."
        )
    sources = ImageSet([images.ids[row] for row in chosen], [images.paths[row] for row in chosen])
    return InAug(sources, np.repeat(np.arange(len(chosen)), copies), copies, seed)


class InAugImages(Dataset[tuple[Tensor, bool]]):
    """The copies of an IN-aug set, edited by MultiGrain's `full` set of augmentations.

    Item i is (RGB uint8 [3, size, size], True): copy i of `chosen`, which depends on (seed, image, copy) only. The image that is
    edited has a short side of at least 2 · `size` where its resolution allows, so that crops keep enough pixels. The same seed
    gives the same crops and colours at every size, so that resolutions can be compared.

    Raises:
        ImageError: an item's image can no longer be read.
    """

    def __init__(self, chosen: InAug, size: int) -> None:
        self.chosen, self.size = chosen, size

    def __len__(self) -> int:
        return len(self.chosen.groups)

    def __getitem__(self, index: int) -> tuple[Tensor, bool]:
        sources = self.chosen.sources
        source, copy = divmod(index, self.chosen.copies)
        rng = generator_for(self.chosen.seed, 0, sources.ids[source], copy + 1)
        image = shrink(decode_rgb(sources.paths[source], short_side=2 * self.size), 3 * self.size)
        pixels = resize_square(edit_image(image, COPY_EDITS, rng).image, self.size)
        return torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1), True


def _is_readable(images: ImageSet, row: int) -> bool:
    try:
        decode_rgb(images.paths[row], short_side=32)
    except ImageError:
        return False
    return True
