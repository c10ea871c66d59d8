"""PCA whitening of embeddings, undone inside the classifier (MultiGrain, section 3.4)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from image_copies.data.errors import UserError

from .layers import apply_linear

VARIANCE_FLOOR = 1e-6  # minimum variance along an axis, as a fraction of the largest
ROUNDING_VARIANCE = 1e-12  # variance of unit vectors that rounding alone can cause


@dataclass(frozen=True)
class Whitening:
    """The PCA whitening Φ(e) = S (e/‖e‖ − µ) (MultiGrain, section 3.4)."""

    matrix: Tensor  # S [d, d]
    mean: Tensor  # µ [d]

    def __call__(self, embeddings: Tensor) -> Tensor:
        """Return Φ(e) [n, d] of embeddings [n, d]; the result is not of unit length."""
        return whiten(embeddings, self.matrix, self.mean)


def whiten(embeddings: Tensor, matrix: Tensor, mean: Tensor) -> Tensor:
    """Return Φ(e) = S (e/‖e‖ − µ) of embeddings [n, d], with `matrix` S [d, d] and `mean` µ [d] (MultiGrain, section 3.4)."""
    return apply_linear(functional.normalize(embeddings) - mean, matrix)


def fit_whitening(embeddings: Tensor) -> Whitening:
    """Fit the whitening on unlabelled embeddings [n, d].

    Variances below VARIANCE_FLOOR of the largest are raised to it. This keeps S invertible, so that folding stays exact, even
    with dead channels or little variation among the images.

    Raises:
        UserError: n ≤ d, or all embeddings are the same.
    """
    if len(embeddings) <= embeddings.shape[1]:
        raise UserError(
            f"{len(embeddings)} embeddings cannot whiten {embeddings.shape[1]} dimensions; use more images than dimensions."
        )
    unit = functional.normalize(embeddings.double())
    mean = unit.mean(0)
    values, axes = torch.linalg.eigh((unit - mean).T @ (unit - mean) / len(unit))
    if not values[-1] > ROUNDING_VARIANCE:
        raise UserError(
            f"the {len(unit)} embeddings to whiten with are all the same: the network has collapsed. Train it again."
        )
    return Whitening(
        (axes / values.clamp(min=VARIANCE_FLOOR * values[-1]).sqrt()).T.to(embeddings), mean.to(embeddings)
    )


def compute_folded_logits(embeddings: Tensor, whitening: Whitening, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute a classifier's logits from whitened embeddings: ‖e‖ (⟨S^{−T} w, Φ(e)⟩ + ⟨w, µ⟩) + b (MultiGrain, section 3.4).

    They [n, c] equal those of the classifier, w [c, d] and b [c], on the raw embeddings e [n, d].
    """
    folded = torch.linalg.solve(whitening.matrix.T.double(), weight.T.double()).T
    inside = whitening(embeddings).double() @ folded.T + weight.double() @ whitening.mean.double()
    logits: Tensor = embeddings.norm(dim=1, keepdim=True) * inside + bias
    return logits.to(embeddings)
