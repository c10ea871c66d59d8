"""Whitening of the descriptor once its last stage has ended, learnt on unlabelled images (MultiGrain, section 3.4)."""

from pathlib import Path

import torch

from image_copies.augmentations.randomness import generator_for
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images

from ..device import report_lack_of_memory
from ..inference.handmade import compute_raw
from ..inference.settings import EmbeddingSettings
from ..network.descriptor import Descriptor
from ..network.whitening import fit_whitening

BATCH_SIZE = 64  # images
WHITENING_IMAGES = 20_000  # the paper takes 20,000 of YFCC100M (MultiGrain, section 4.1)


def choose_whitening_images(
    folder: Path | None, seed: int, overlays: ImageSet, classes: ImageSet
) -> ImageSet:
    """Choose the images that the whitening is fitted on, without duplicates.

    If a folder is given, its images are taken, in a seeded order; otherwise the overlays, then the classes.

    Raises:
        UserError: The folder does not exist or contains no image.
    """
    if folder is not None:
        found = find_images(folder, naming="path")
        return found.select(
            [found.ids[row] for row in generator_for(seed, 0, "whitening").permutation(len(found))]
        )
    pasted = set(overlays.ids)
    others = [row for row, image_id in enumerate(classes.ids) if image_id not in pasted]
    ids = [*overlays.ids, *(classes.ids[row] for row in others)]
    return ImageSet(ids, [*overlays.paths, *(classes.paths[row] for row in others)])


def check_whitening(descriptor: Descriptor, images: int) -> None:
    """Check before training that there are enough images to whiten the descriptor's vectors.

    Raises:
        UserError: There are no more images than dimensions.
    """
    if descriptor.settings.whiten and images <= descriptor.dimensions:
        raise UserError(
            f"whiten: {images} training images cannot whiten {descriptor.dimensions} dimensions; more images than dimensions "
            "are needed. Lower descriptor.dimensions, leave whiten out, add training images, or name a folder of other images "
            "(whitening_images)."
        )


@torch.no_grad()
def learn_whitening(
    descriptor: Descriptor,
    images: ImageSet,
    workers: int | None,
    embedding: EmbeddingSettings,
    trained_at: int,
) -> None:
    """Fit the descriptor's whitening on clean images at the test size s* and exponent p* (MultiGrain, section 3.4), in place.

    The first WHITENING_IMAGES that can be read are used. `embedding` says how the descriptor will embed, by default at the size
    `trained_at`, which defines s* and p*.

    Raises:
        UserError: Too few images can be read, or all vectors are the same.
    """
    descriptor.eval()
    some = ImageSet(images.ids[:WHITENING_IMAGES], images.paths[:WHITENING_IMAGES])
    size = embedding.image_size or trained_at
    remedy = (
        "Lower embedding.image_size, or stop other programs that use memory; "
        "the same command goes on from the last saved state."
    )
    with (
        descriptor.use_exponent(embedding.pooling_exponent),
        report_lack_of_memory(
            f"while the whitening was fitted on batches of {BATCH_SIZE} images of {size} px", remedy
        ),
    ):
        whitening = fit_whitening(compute_raw(descriptor, some, size, BATCH_SIZE, workers))
    descriptor.whitening_mean.copy_(whitening.mean)
    descriptor.whitening_matrix.copy_(whitening.matrix)
