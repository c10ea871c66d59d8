"""The four rotations of an image as domains, each with its own head, compared within themselves (IDEAL, sections 4.1 and 4.3)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from image_copies.models.network.descriptor import apply_linear
from image_copies.models.objectives.base import Objective, ObjectiveOutput

DOMAINS = (0, 90, 180, 270)  # degrees, counter-clockwise


@dataclass(frozen=True)
class Domains:
    """How a descriptor embeds an image in its four rotations, each by its own head, and how these vectors are compared."""

    shared: bool  # whether one head serves all

    def head_size(self, dimensions: int) -> int:
        """Return the rows of the linear layer of a descriptor with so many dimensions."""
        return dimensions // len(DOMAINS) if self.shared else dimensions

    def features(self, compute: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Compute the features of the rotations of images [n, 3, h, w]: those of 4 n images, domain by domain."""
        if images.shape[2] == images.shape[3]:
            return compute(rotate_to_all_domains(images))
        parts = [compute(torch.rot90(images, domain, dims=(2, 3))) for domain in range(len(DOMAINS))]
        # equal for pooling
        turned = [part.mT if domain % 2 and part.ndim == 4 else part for domain, part in enumerate(parts)]
        return torch.cat(turned)

    def describe(self, pooled: Tensor, weight: Tensor, raw: bool) -> Tensor:
        """Project pooled features [4 n, c] by the heads of `weight`: `raw` to [4, n, d / 4], otherwise to unit vectors [n, d]."""
        heads = [weight] * len(DOMAINS) if self.shared else weight.chunk(len(DOMAINS))
        of_domains = pooled.unflatten(0, (len(DOMAINS), -1))
        parts = torch.stack(
            [apply_linear(part, head) for part, head in zip(of_domains, heads, strict=True)]
        )
        if raw:
            return parts
        return functional.normalize(functional.normalize(parts, dim=2).transpose(0, 1).flatten(1))

    def sum_losses(
        self, objective: Objective, embeddings: Tensor, labels: Tensor, instances: Tensor
    ) -> ObjectiveOutput:
        """Sum an objective over the domains' embeddings [4, n, d / 4] with equal labels and instances [n]; logs of the first.

        Raises:
            UserError: The batch does not contain what the objective compares.
        """
        outputs = [objective(domain, labels, instances) for domain in embeddings]
        loss = torch.stack([output.loss for output in outputs]).sum()
        return ObjectiveOutput(loss, outputs[0].logs, outputs[0].rows)


SPLIT, SHARED = Domains(shared=False), Domains(shared=True)


def turn_at_random(images: Tensor) -> Tensor:
    """Rotate each image of a batch [n, 3, s, s] to a random domain."""
    return rotate_to_domains(images, torch.randint(len(DOMAINS), (len(images),)))


def rotate_to_all_domains(images: Tensor) -> Tensor:
    """Rotate a batch [n, 3, s, s] to all four domains [4 n, 3, s, s]: first all images at 0°, then all at 90°, and so on."""
    return torch.cat([torch.rot90(images, domain, dims=(2, 3)) for domain in range(len(DOMAINS))])


def rotate_to_domains(images: Tensor, domains: Tensor) -> Tensor:
    """Rotate each image of a batch [n, 3, s, s] to its own domain in `domains` int64 [n], 0…3; no GPU is waited for."""
    result = images.clone()
    chosen = domains.to(images.device, non_blocking=True)[:, None, None, None]
    # not by the rows of a domain: a GPU would have to say which they are
    for domain in range(1, len(DOMAINS)):
        result.copy_(torch.where(chosen == domain, torch.rot90(images, domain, dims=(2, 3)), result))
    return result
