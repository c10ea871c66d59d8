"""A class's row at the beginning of a stage: the mean of the unit vectors that the network gives in evaluation mode."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from image_copies.augmentations.dataset import EditedImages, normalize_pixels
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import cache_images
from image_copies.data.images import find_images
from image_copies.data.procedural import write_pictures
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training.centroids import compute_centroids


@pytest.mark.parametrize("training", [True, False])
def test_a_centroid_is_the_mean_of_five_unit_vectors(tmp_path: Path, training: bool) -> None:
    list(write_pictures(tmp_path / "pictures", "T", 3, seed=1, workers=1))
    squares = cache_images(find_images(tmp_path / "pictures"), 48, tmp_path / "cache")
    clean = EditedImages(squares, AugmentationSettings(family="none"), 32, 0)
    edited = EditedImages(squares, AugmentationSettings(intensity=1.0), 32, 0)
    passes = [(clean, -1), *((edited, epoch) for epoch in (-1, -2, -3, -4))]
    torch.manual_seed(0)
    descriptor = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8)).train(training)

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


class SleepingImages(Dataset[tuple[Tensor, int]]):
    """Black images, each of which a worker sleeps over."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __getitem__(self, key: tuple[int, int, int]) -> tuple[Tensor, int]:
        time.sleep(self.seconds)
        return torch.zeros(3, 8, 8, dtype=torch.uint8), key[1]


class SleepingDescriptor(nn.Linear):
    """A descriptor that sleeps over each batch."""

    dimensions, mean, std = 4, (0.5,) * 3, (0.5,) * 3

    def __init__(self, seconds: float) -> None:
        super().__init__(1, 4)
        self.seconds = seconds

    def forward(self, images: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return self.bias.expand(len(images), 4)


@pytest.mark.slow
def test_images_are_read_while_others_are_embedded() -> None:
    def measure(an_image: float, a_batch: float) -> float:
        images: Any = SleepingImages(an_image)
        descriptor: Any = SleepingDescriptor(a_batch)
        started, rows = time.monotonic(), range(512)
        compute_centroids(descriptor, [(images, -1)] * 5, rows, rows, 16, 2, "32")
        return time.monotonic() - started

    reading, embedding, both = measure(0.005, 0), measure(0, 0.04), measure(0.005, 0.04)
    print(f"512 × 5 images, 16 a batch, 2 workers: reading {reading:.1f} s, embedding {embedding:.1f} s, both {both:.1f} s")
    assert both < 0.65 * (reading + embedding)
