"""Vectors of images that are resized and cropped as the protocol of a test set says."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.arrays import Bools, Float32s
from image_copies.data.images import ImageSet
from image_copies.data.preprocessing import PreprocessedImages, TestProtocol

from ..network.descriptor import Descriptor

BATCH_SIZE = 64


@dataclass(frozen=True)
class View:
    """How images are presented to the descriptor."""

    descriptor: Descriptor  # in evaluation mode, on its device
    size: int  # in pixels
    protocol: TestProtocol  # how an image is resized and cropped to that size


def embed_shown(
    descriptor: Descriptor,
    shown: Dataset[tuple[Tensor, bool]],
    raw: bool = False,
    batch_size: int = BATCH_SIZE,
) -> tuple[Float32s, Bools]:
    """Embed n images, RGB uint8 [3, h, w] and whether each could be read; return vectors float32 [n, d], and bool [n] of these.

    They are unit vectors, or `raw` embeddings, [4, n, d / 4] with domains.
    """
    device = next(descriptor.parameters()).device
    found, readable = list[Tensor](), list[Tensor]()
    with torch.inference_mode():
        for pixels, fine in tqdm(
            DataLoader(shown, batch_size), desc="embedding", unit="batch", leave=False
        ):
            normal = normalize_pixels(pixels.to(device), descriptor.mean, descriptor.std)
            found.append(descriptor(normal, raw=raw).float().cpu())
            readable.append(fine)
    return torch.cat(found, dim=-2).numpy(), torch.cat(readable).numpy()


def embed_view(view: View, images: ImageSet, raw: bool = False) -> Float32s:
    """Embed n images as unit vectors float32 [n, d], or raw; zero for unreadable ones, which are reported."""
    shown = PreprocessedImages(images, view.size, view.protocol)
    alike = view.protocol != "long_side"  # where whole images have their own shapes, each is a batch
    vectors, readable = embed_shown(view.descriptor, shown, raw, BATCH_SIZE if alike else 1)
    broken = np.flatnonzero(~readable)
    vectors[broken] = 0
    if len(broken) and not raw:
        first = images.paths[broken[0]]
        print(
            f"{len(broken)} of {len(images)} images are unreadable and match nothing, the first is {first}"
        )
    return vectors
