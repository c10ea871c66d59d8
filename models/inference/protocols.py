"""Vectors of images that are resized and cropped as the protocol of a test set says, or pooled with several p."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.arrays import Float32s
from image_copies.data.images import ImageSet
from image_copies.data.preprocessing import PreprocessedImages, SameShapeBatches, TestProtocol, input_shapes

from ..network.descriptor import Descriptor

BATCH_SIZE = 64
ReadImages = Dataset[tuple[Tensor, bool]]  # item: (uint8 [3, size, size], whether the image could be read)


@dataclass(frozen=True)
class View:
    """How images are presented to the descriptor."""

    descriptor: Descriptor  # in evaluation mode, on its device
    size: int  # in pixels
    protocol: TestProtocol  # how an image is resized and cropped to that size


def embed_view(view: View, images: ImageSet, raw: bool = False) -> Float32s:
    """Embed n images as unit vectors float32 [n, d], or raw; zero for unreadable ones, which are reported."""
    device = next(view.descriptor.parameters()).device
    dataset = PreprocessedImages(images, view.size, view.protocol)
    batches = SameShapeBatches(input_shapes(dataset), BATCH_SIZE)
    result: Tensor | None = None
    broken: list[int] = []
    with torch.inference_mode(), tqdm(total=len(images), desc="embedding", unit="image", leave=False) as bar:
        for rows, (pixels, readable) in zip(batches, DataLoader(dataset, batch_sampler=batches), strict=True):
            shown = normalize_pixels(pixels.to(device), view.descriptor.mean, view.descriptor.std)
            vectors = view.descriptor(shown, raw=raw).float().cpu() * readable[:, None]
            result = torch.zeros(len(images), vectors.shape[1]) if result is None else result
            result[rows] = vectors
            broken += [row for row, fine in zip(rows, readable.tolist(), strict=True) if not fine]
            bar.update(len(rows))
    if broken and not raw:
        first = images.paths[min(broken)]
        print(f"{len(broken)} of {len(images)} images are unreadable and match nothing, the first is {first}")
    return result.numpy() if result is not None else np.zeros((0, view.descriptor.dimensions), np.float32)


def embed_at_exponents(
    descriptor: Descriptor,
    images: ReadImages,
    exponents: Sequence[float],
    workers: int = 0,
    raw: bool = False,
) -> dict[float, Float32s]:
    """Return vectors float32 [n, d], unit or `raw`, by exponent of GeM; the descriptor is left in evaluation mode."""
    found: dict[float, list[Tensor]] = {exponent: [] for exponent in exponents}
    loader = DataLoader(images, BATCH_SIZE, num_workers=workers)
    descriptor.eval()
    device = descriptor.pooling.exponent.device
    with descriptor.pooling.set_exponent_temporarily(), torch.no_grad():
        for pixels, _ in tqdm(loader, desc="embedding", unit="batch", leave=False):
            normal = normalize_pixels(pixels.to(device), descriptor.mean, descriptor.std)
            features = descriptor.features(normal)
            for exponent, vectors in found.items():
                descriptor.pooling.set_exponent(exponent)
                vectors.append(descriptor.describe_features(features, raw=raw).cpu())
    return {exponent: torch.cat(vectors).numpy() for exponent, vectors in found.items()}
