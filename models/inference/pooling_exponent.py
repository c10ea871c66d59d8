"""The choice of p*, GeM's exponent at test time: from vectors at several p, or by training p alone.

MultiGrain, ICLR submission, section 3.5 and appendix G. The backbone's feature maps do not depend on p: they are computed once
for each image and size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.errors import UserError
from image_copies.models.network.descriptor import Descriptor

BATCH_SIZE = 64  # of what is only embedded
ReadImages = Dataset[tuple[Tensor, bool]]  # item: (uint8 [3, size, size], whether the image could be read)


@dataclass(frozen=True)
class LearningSettings:
    """How p* is learnt by SGD, with the paper's values (MultiGrain)."""

    batch_size: int = 4
    # initial learning rate, which decays as (1 − i / steps)^power over one epoch
    learning_rate: float = 0.005
    momentum: float = 0.9
    power: float = 0.9  # exponent of the decay


@dataclass(frozen=True)
class LearntExponent:
    """The result of learning p*; cross-entropies are means over the second half of the epoch."""

    value: float  # p*
    loss_before: float  # cross-entropy at the initial p
    loss: float  # cross-entropy at p while it was trained


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


def learn_exponent(
    descriptor: Descriptor,
    classifier: tuple[Tensor, Tensor],
    images: ReadImages,
    labels: NDArray[np.int64],
    settings: LearningSettings | None = None,
    seed: int = 0,
    workers: int = 0,
) -> LearntExponent:
    """Train p alone, from the descriptor's own, for one epoch of SGD on a classifier's cross-entropy.

    Afterwards the descriptor is unchanged except for its evaluation mode. The classifier of raw embeddings has weights [c, d] and
    a bias [c]; labels int64 [n] are its classes. `settings` None are the paper's.

    Raises:
        UserError: The learning rate is so large that p does not stay positive and finite.
    """
    settings = settings or LearningSettings()
    exponent = descriptor.pooling.exponent
    start = float(exponent.detach())
    order = np.random.default_rng(seed).permutation(len(labels))
    loader = DataLoader(images, settings.batch_size, sampler=order.tolist(), num_workers=workers)
    targets = torch.from_numpy(labels[order]).to(exponent.device).split(settings.batch_size)
    optimizer = torch.optim.SGD([exponent], settings.learning_rate, settings.momentum)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, len(loader), settings.power)
    losses: list[tuple[float, float]] = []
    with descriptor.pooling.set_exponent_temporarily():
        exponent.requires_grad_(True)
        for features, classes in zip(_extract_features(descriptor, loader), targets, strict=True):
            with descriptor.pooling.set_exponent_temporarily(start), torch.no_grad():
                before = float(_classification_loss(descriptor, features, classifier, classes))
            loss = _classification_loss(descriptor, features, classifier, classes)
            losses.append((before, float(loss.detach())))
            (exponent.grad,) = torch.autograd.grad(loss, [exponent])
            optimizer.step()
            schedule.step()
            if not 0 < float(exponent.detach()) < float("inf"):
                raise UserError(
                    f"p became {float(exponent.detach()):.3g} after {len(losses)} steps, but must stay above 0: "
                    f"the learning rate {settings.learning_rate} is too large. The paper's is 0.005."
                )
        value = float(exponent.detach())
    means = np.mean(losses[len(losses) // 2 :], axis=0)
    return LearntExponent(value, float(means[0]), float(means[1]))


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


def _classification_loss(
    descriptor: Descriptor, features: Tensor, classifier: tuple[Tensor, Tensor], classes: Tensor
) -> Tensor:
    """Compute the classifier's cross-entropy on raw embeddings at the descriptor's current p."""
    weight, bias = (part.to(features.device) for part in classifier)
    return functional.cross_entropy(
        functional.linear(descriptor.describe_features(features, raw=True), weight, bias), classes
    )
