"""Domain augmentation: the four rotations as separate domains instead of random edits (IDEAL, section 4.1)."""

import torch
from torch import Tensor

DOMAINS = (0, 90, 180, 270)  # degrees, counter-clockwise


def rotate_to_all_domains(images: Tensor) -> Tensor:
    """Rotate a batch [n, 3, s, s] to all four domains [4 n, 3, s, s]: first all images at 0°, then all at 90°, and so on."""
    return torch.cat([torch.rot90(images, domain, dims=(2, 3)) for domain in range(len(DOMAINS))])


def rotate_to_domains(images: Tensor, domains: Tensor) -> Tensor:
    """Rotate each image of a batch [n, 3, s, s] to its own domain in `domains` int64 [n], 0…3; no GPU is waited for."""
    result = images.clone()
    chosen = domains.to(images.device, non_blocking=True)[:, None, None, None]
    for domain in range(1, len(DOMAINS)):  # not by the rows of a domain: a GPU would have to say which they are
        result.copy_(torch.where(chosen == domain, torch.rot90(images, domain, dims=(2, 3)), result))
    return result
