"""Domain augmentation (IDEAL): the four rotations as separate domains, not as random edits."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

DOMAINS = (0, 90, 180, 270)  # degrees, counter-clockwise


def rotate_to_domain(image: NDArray[np.uint8], domain: int) -> NDArray[np.uint8]:
    """An image [h, w, 3] turned counter-clockwise by DOMAINS[domain] degrees; exact, no pixel is interpolated."""
    return np.ascontiguousarray(np.rot90(image, domain))


def rotate_to_all_domains(images: Tensor) -> Tensor:
    """A batch [n, 3, s, s] in all four domains [4 n, 3, s, s]: first all images at 0°, then all at 90°, and so on."""
    return torch.cat([torch.rot90(images, domain, dims=(2, 3)) for domain in range(len(DOMAINS))])


def rotate_to_domains(images: Tensor, domains: Tensor) -> Tensor:
    """A batch [n, 3, s, s] with each image turned to its own domain of `domains` int64 [n], 0…3."""
    result = images.clone()
    for domain in range(1, len(DOMAINS)):
        rows = domains == domain
        result[rows] = torch.rot90(images[rows], domain, dims=(2, 3))
    return result
