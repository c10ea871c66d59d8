"""PCA whitening of embeddings, undone inside the classifier (MultiGrain, section 3.4)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from data.errors import UserError

VARIANCE_FLOOR = 1e-6  # least variance along an axis, as a share of the largest
ROUNDING_VARIANCE = 1e-12  # variance that rounding alone can leave in unit vectors


@dataclass(frozen=True)
class Whitening:
    """Φ(e) = S (e/‖e‖ − µ).

    Attributes:
        matrix: S [d, d].
        mean: µ [d].
    """

    matrix: Tensor
    mean: Tensor

    def __call__(self, embeddings: Tensor) -> Tensor:
        """Φ of embeddings [n, d]: [n, d], not of unit length."""
        return whiten(embeddings, self.matrix, self.mean)


def whiten(embeddings: Tensor, matrix: Tensor, mean: Tensor) -> Tensor:
    """Φ(e) = S (e/‖e‖ − µ) of embeddings [n, d], with matrix S [d, d] and mean µ [d] (MultiGrain, section 3.4)."""
    return (functional.normalize(embeddings) - mean) @ matrix.T


def fit_whitening(embeddings: Tensor) -> Whitening:
    """From unlabelled embeddings [n, d]; the variance along an axis counts as 1e-6 of the largest at least.

    The floor keeps S invertible, so that folding stays exact, where dimensions are dead (channels that never fire) or few images
    vary. UserError: n ≤ d, or embeddings that are all the same.
    """
    if len(embeddings) <= embeddings.shape[1]:
        raise UserError(f"{len(embeddings)} embeddings cannot whiten {embeddings.shape[1]} dimensions; whiten with more images.")
    unit = functional.normalize(embeddings.double())
    mean = unit.mean(0)
    values, axes = torch.linalg.eigh((unit - mean).T @ (unit - mean) / len(unit))
    if not values[-1] > ROUNDING_VARIANCE:
        raise UserError(f"the {len(unit)} embeddings to whiten with are all the same: the network has collapsed. Train it again.")
    return Whitening((axes / values.clamp(min=VARIANCE_FLOOR * values[-1]).sqrt()).T.to(embeddings), mean.to(embeddings))


def compute_folded_logits(embeddings: Tensor, whitening: Whitening, weight: Tensor, bias: Tensor) -> Tensor:
    """Logits [n, c] of the classifier (weight [c, d], bias [c]) from Φ(e): ‖e‖ (⟨S^{−T} w, Φ(e)⟩ + ⟨w, µ⟩) + bias."""
    folded = torch.linalg.solve(whitening.matrix.T.double(), weight.T.double()).T
    inside = whitening(embeddings).double() @ folded.T + weight.double() @ whitening.mean.double()
    logits: Tensor = embeddings.norm(dim=1, keepdim=True) * inside + bias
    return logits.to(embeddings)
