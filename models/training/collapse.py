"""Whether vectors collapse, and whether a network gives the same ones while it learns as when it embeds.

They collapse towards one direction (mean cosine), or into few dimensions (effective rank). Weights with wrong batch statistics
embed otherwise than they learn.
"""

import copy
import math

import torch
from torch import Tensor
from torch.nn import functional

from image_copies.augmentations.dataset import EditedImages
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import CachedImages

from ..network.descriptor import Descriptor
from .centroids import FIRST_CENTROID_EPOCH, compute_centroids

IMAGES = 128  # that are measured at most, each of another class
MOST_COSINE = 0.95  # mean cosine from which vectors are said to collapse
# of the highest possible effective rank, and in itself, below which they are
LEAST_RANK_SHARE, LEAST_RANK = 0.1, 3.0
COSINE, RANK, RANK_BOUND = "mean_cosine", "effective_rank", "effective_rank_bound"  # columns of the curve
REMEDY = (
    "lower optimizer.learning_rate, begin with fewer classes and weaker edits, give a stage of few steps more of them, or add "
    "svmax"
)


def mean_cosine(vectors: Tensor) -> float:
    """Mean cosine −1…1 of all pairs of different rows of unit vectors [n, d], n at least 2: 1 where all are equal."""
    unit = functional.normalize(vectors.double())
    return float((unit.sum(dim=0).square().sum() - unit.square().sum()) / (len(unit) * (len(unit) - 1)))


def effective_rank(vectors: Tensor) -> float:
    """Effective rank of unit vectors [n, d] less their mean: exp(−Σ pᵢ ln pᵢ) with pᵢ = σᵢ / Σ σ of their singular values σ.

    O. Roy and M. Vetterli, *The effective rank*, EUSIPCO 2007, definition 1. It lies between 1 and the rank, at most
    min(n − 1, d). The mean is subtracted because `mean_cosine` measures it, and because a large one would hide how many
    dimensions tell images apart. 0 where all vectors are equal but for rounding.
    """
    unit = functional.normalize(vectors.double())
    values = torch.linalg.svdvals(unit - unit.mean(dim=0))
    if float(values[0]) <= torch.finfo(vectors.dtype).eps * len(unit) ** 0.5:
        return 0.0
    shares = values / values.sum()
    return float(torch.special.entr(shares).sum().exp())


def describe_spread(rows: Tensor) -> dict[str, Tensor | float]:
    """Return figures of a batch's rows [b, d], of any norm: the mean singular value s of the unit rows, and its bounds."""
    unit = functional.normalize(rows)
    smaller = (unit if len(unit) <= unit.shape[1] else unit.T).double()
    squares: Tensor = torch.linalg.eigvalsh(smaller @ smaller.T)
    lower, upper = singular_bounds(*rows.shape)
    mean = squares.clamp(min=0).sqrt().sum().to(rows) / min(rows.shape)
    return {"mean_singular_value": mean, "singular_lower": lower, "singular_upper": upper}


def singular_bounds(batch: int, dimensions: int) -> tuple[float, float]:
    """Return the bounds √b / k and √(b / k), k = min(b, d), of the mean singular value of unit rows [b, d] (SVMax)."""
    k = min(batch, dimensions)
    return math.sqrt(batch) / k, math.sqrt(batch / k)


def measure_collapse(vectors: Tensor) -> dict[str, float]:
    """Mean cosine and effective rank of vectors [n, d], and the highest effective rank possible, as columns of the curve.

    Empty for fewer than 3 vectors, which say nothing.
    """
    if len(vectors) < 3:
        return {}
    bound = min(len(vectors) - 1, vectors.shape[1])
    return {COSINE: mean_cosine(vectors), RANK: effective_rank(vectors), RANK_BOUND: float(bound)}


def find_collapse(figures: dict[str, float]) -> str:
    """Say what has collapsed, with the figures of `measure_collapse` and the bounds that they pass; empty where nothing has.

    On 256 procedural pictures six untrained networks had mean cosines of 0.37 to 0.92 and effective ranks from 20 % of what is
    possible (lcnet_050 is at 1.00), small ones after 32 to 400 steps 0.01 to 0.89 and from 16 %, the descriptor that ships 0.11
    and 71 %. Networks with batch normalisation whose statistics have had only 8 steps to follow are at 0.98, and are warned of.
    Figures that are missing are not judged.
    """
    found = []
    if figures.get(COSINE, 0.0) > MOST_COSINE:
        found.append(f"mean cosine of different images {figures[COSINE]:.3f}, above {MOST_COSINE}")
    if RANK in figures:
        bound = figures[RANK_BOUND]
        least = max(LEAST_RANK_SHARE * bound, min(LEAST_RANK, bound / 2))
        if figures[RANK] < least:
            found.append(f"effective rank {figures[RANK]:.1f} of {bound:g} possible, below {least:.1f}")
    return "; ".join(found)


@torch.no_grad()
def embed_classes(
    descriptor: Descriptor,
    squares: CachedImages,
    rows: list[int],
    class_of: list[int],
    image_size: int,
    batch_size: int,
) -> Tensor:
    """Return unit vectors [n, d] of clean images on the CPU, without whitening, which would spread what has collapsed.

    One image each is taken of at most IMAGES classes, from first to last, because images of one class are to be alike. The
    descriptor's mode does not change.
    """
    firsts = list({class_of[row]: row for row in reversed(rows)}.values())[::-1]
    count = min(len(firsts), IMAGES)
    chosen = [firsts[number * len(firsts) // count] for number in range(count)]
    clean = EditedImages(squares, AugmentationSettings(family="none"), image_size, 0)
    with descriptor.use_whitening(False):
        _, vectors = compute_centroids(
            descriptor,
            [(clean, FIRST_CENTROID_EPOCH)],
            chosen,
            range(count),
            batch_size,
            workers=0,
            precision="32",
        )
    return vectors.cpu()


LEAST_AGREEMENT = 0.15  # mean cosine below which a start is warned of


@torch.no_grad()
def measure_agreement(descriptor: Descriptor, images: Tensor) -> float:
    """Mean cosine −1…1 of the same images' vectors in training and in evaluation mode, each mode's mean vector taken off.

    Without its mean, which all images share, a vector says what tells its image from others. Neither weights, statistics nor
    random state change. The images are [n, 3, s, s], normalised; n at least 2.
    """

    def centred(training: bool) -> Tensor:
        network = copy.deepcopy(descriptor).train(training)
        with torch.random.fork_rng(devices=[images.device] if images.is_cuda else []):
            # with domains [4, n, d / 4]
            found: Tensor = network(images, raw=True).float().transpose(0, -2).flatten(1)
        return found - found.mean(dim=0)

    return float(functional.cosine_similarity(centred(True), centred(False)).mean())


def find_disagreement(descriptor: Descriptor, images: Tensor) -> str:
    """Say of normalised images [n, 3, s, s] how weights embed them otherwise than they learn; empty where they do not."""
    cosine = measure_agreement(descriptor, images)
    if cosine >= LEAST_AGREEMENT:
        return ""
    return (
        f"the start's vectors while it learns and when it embeds disagree (mean cosine {cosine:.2f}): the statistics of its "
        "batch normalisations are not those of its weights, as where they were folded into the convolutions. Take other "
        "weights, or train with descriptor.frozen_statistics: true."
    )
