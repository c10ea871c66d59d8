"""PCA whitening of embeddings, undone inside the classifier (MultiGrain, section 3.4)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from data.errors import UserError


@dataclass(frozen=True)
class Whitening:
    """Φ(e) = S (e/‖e‖ − µ): `matrix` S [d, d], `mean` µ [d]."""

    matrix: Tensor
    mean: Tensor

    def __call__(self, embeddings: Tensor) -> Tensor:
        return (functional.normalize(embeddings) - self.mean) @ self.matrix.T


def fit_whitening(embeddings: Tensor) -> Whitening:
    """From unlabelled embeddings [n, d], n > d; UserError when they span fewer than d dimensions."""
    unit = functional.normalize(embeddings.double())
    mean = unit.mean(0)
    values, axes = torch.linalg.eigh((unit - mean).T @ (unit - mean) / len(unit))
    if values[0] <= values[-1] * 1e-12:
        raise UserError(f"{len(unit)} embeddings span fewer than their {unit.shape[1]} dimensions; whiten with more images.")
    return Whitening((axes / values.sqrt()).T.to(embeddings), mean.to(embeddings))


def folded_logits(embeddings: Tensor, whitening: Whitening, weight: Tensor, bias: Tensor) -> Tensor:
    """Logits [n, c] of the classifier (weight [c, d], bias [c]) from Φ(e): ‖e‖ (⟨S^{−T} w, Φ(e)⟩ + ⟨w, µ⟩) + bias."""
    folded = torch.linalg.solve(whitening.matrix.T.double(), weight.T.double()).T
    inside = whitening(embeddings).double() @ folded.T + weight.double() @ whitening.mean.double()
    return (embeddings.norm(dim=1, keepdim=True) * inside + bias).to(embeddings)
