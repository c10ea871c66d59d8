"""A class's row at the beginning of a stage: the mean of the unit vectors that the network gives in evaluation mode."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from image_copies.augmentations.dataset import EditedImages, normalize_pixels
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import cache_images
from image_copies.data.images import ImageSet
from image_copies.models.training.centroids import compute_centroids
from tests.networks import make_small


@pytest.mark.parametrize("training", [True, False])
def test_a_centroid_is_the_mean_of_five_unit_vectors(images: ImageSet, tmp_path: Path, training: bool) -> None:
    squares = cache_images(images.select(images.ids[:3]), 48, tmp_path / "cache")
    clean = EditedImages(squares, AugmentationSettings(family="none"), 32, 0)
    edited = EditedImages(squares, AugmentationSettings(intensity=1.0), 32, 0)
    passes = [(clean, -1), *((edited, epoch) for epoch in (-1, -2, -3, -4))]
    torch.manual_seed(0)
    descriptor = make_small().train(training)

    found, centroids = compute_centroids(descriptor, passes, [0, 2, 1], [7, 4, 7], 2, 0, "32")

    assert found.tolist() == [4, 7] and descriptor.training == training
    descriptor.eval()

    @torch.no_grad()
    def embed(dataset: EditedImages, epoch: int, row: int) -> Tensor:
        pixels = dataset[epoch, row, 0][0][None]
        raw: Tensor = descriptor(normalize_pixels(pixels, descriptor.mean, descriptor.std), raw=True)[0]
        return raw / raw.square().sum().sqrt()

    for centroid, rows in zip(centroids, ([2], [0, 1]), strict=True):
        vectors = [embed(clean, -1, row) for row in rows]
        vectors += [embed(edited, epoch, row) for row in rows for epoch in (-1, -2, -3, -4)]
        mean = torch.stack(vectors).mean(dim=0)
        assert torch.allclose(centroid, mean / mean.norm(), atol=1e-5)
