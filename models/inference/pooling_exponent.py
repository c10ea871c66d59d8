"""Vectors at several p, GeM's exponent at test time, of which p* is chosen (MultiGrain, ICLR submission, section 3.5).

The backbone's feature maps do not depend on p: they are computed once
for each image and size.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.models.network.descriptor import Descriptor

BATCH_SIZE = 64  # of what is only embedded
ReadImages = Dataset[tuple[Tensor, bool]]  # item: (uint8 [3, size, size], whether the image could be read)


def embed_at_exponents(
    descriptor: Descriptor,
    images: ReadImages,
    exponents: Sequence[float],
    workers: int = 0,
    raw: bool = False,
) -> dict[float, NDArray[np.float32]]:
    """Return vectors float32 [n, d], unit or `raw`, by exponent of GeM; the descriptor is left in evaluation mode."""
    found: dict[float, list[Tensor]] = {exponent: [] for exponent in exponents}
    with descriptor.pooling.set_exponent_temporarily(), torch.no_grad():
        for features in _extract_features(descriptor, DataLoader(images, BATCH_SIZE, num_workers=workers)):
            for exponent, vectors in found.items():
                descriptor.pooling.set_exponent(exponent)
                vectors.append(descriptor.describe_features(features, raw=raw).cpu())
    return {exponent: torch.cat(vectors).numpy() for exponent, vectors in found.items()}


def _extract_features(descriptor: Descriptor, loader: DataLoader[tuple[Tensor, bool]]) -> Iterator[Tensor]:
    """Yield the backbone's feature maps batch by batch, without gradient."""
    descriptor.eval()
    device = descriptor.pooling.exponent.device
    for pixels, _ in tqdm(loader, desc="embedding", unit="batch", leave=False):
        with torch.no_grad():
            features = descriptor.features(
                normalize_pixels(pixels.to(device), descriptor.mean, descriptor.std)
            )
        yield features
