"""Four domains of an image: the rotations, or others in their place while a network learns and embeds."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol
from unittest.mock import patch

import numpy as np
import torch
from claim_rows.training import vectors_of
from measurements import Figures
from numpy.typing import NDArray
from torch import Tensor

from image_copies.augmentations.domains import DOMAINS
from image_copies.data.labels import LabelledImages
from image_copies.models.network import descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.training import learner
from image_copies.submissions.scoring.retrieval import recall_at

ROTATIONS = tuple(f"{angle}°" for angle in DOMAINS)
OTHERS = ("upright", "upside down", "negative", "quarters exchanged")


class Show(Protocol):
    """Shows images in a domain."""

    def __call__(self, images: Tensor, domain: int) -> Tensor:
        """Return normalised images [n, 3, s, s] in a domain 0…3."""


def show_rotation(images: Tensor, domain: int) -> Tensor:
    """Rotate images by so many quarter turns."""
    return torch.rot90(images, domain, dims=(2, 3))


def show_other(images: Tensor, domain: int) -> Tensor:
    """Return images unchanged, upside down, as negatives (of a mean of one half), or with their quarters exchanged diagonally."""
    if domain == 1:
        return images.flip(2)
    if domain == 2:
        return -images
    return images.roll((images.shape[2] // 2, images.shape[3] // 2), dims=(2, 3)) if domain == 3 else images


@contextmanager
def use_domains(show: Show) -> Iterator[None]:
    """Let networks with domains, and trainings that turn images, take these domains within the block."""

    def show_all(images: Tensor) -> Tensor:
        return torch.cat([show(images, domain) for domain in range(len(DOMAINS))])

    def show_each(images: Tensor, domains: Tensor) -> Tensor:
        return torch.cat([show(image[None], int(domain)) for image, domain in zip(images, domains, strict=True)])

    with patch.object(descriptor, "rotate_to_all_domains", show_all), patch.object(learner, "rotate_to_domains", show_each):
        yield


def measure_domains(
    network: Descriptor, labelled: LabelledImages, side: int, show: Show = show_rotation, domains: tuple[str, ...] = ROTATIONS
) -> Figures:
    """Return R@1 of images of `side` pixels in each domain, as `recalls_of` does; heads of domains see their own one."""
    if network.settings.domains is not None:
        return recalls_of(vectors_of(network, labelled.images, side, raw=True), labelled.labels, domains)
    parts = [vectors_of(network, labelled.images, side, show=partial(show, domain=domain)) for domain in range(len(domains))]
    return recalls_of(np.stack(parts), labelled.labels, domains)


def recalls_of(parts: NDArray[np.float32], labels: NDArray[np.int64], domains: tuple[str, ...] = ROTATIONS) -> Figures:
    """Return R@1 of the domains' vectors [4, n, d]: of each, their mean, that of all but the first, and of all joined."""
    parts = parts / np.linalg.norm(parts, axis=2, keepdims=True)
    each = [recall_at(part, labels, (1,))[1] for part in parts]
    together = recall_at(np.concatenate(list(parts), axis=1), labels, (1,))[1]
    means = {"domain": float(np.mean(each)), "turned": float(np.mean(each[1:])), "upright": each[0]}
    return dict(zip(domains, each, strict=True)) | means | {"joined": together}
