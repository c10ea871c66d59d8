import pytest
import torch

from data.errors import UserError
from models.objectives.domains import within_domains
from models.objectives.pairs import PairObjective
from models.objectives.settings import MultiSimilaritySettings
from models.whitening import fit_whitening, folded_logits


def test_whitened_embeddings_are_white_and_the_folded_classifier_is_the_original():
    x = torch.randn(400, 16) @ torch.randn(16, 16) + 1
    whitening = fit_whitening(x)
    assert torch.allclose(torch.cov(whitening(x).T, correction=0), torch.eye(16), atol=1e-2)
    layer = torch.nn.Linear(16, 5)
    assert torch.allclose(folded_logits(x, whitening, layer.weight, layer.bias), layer(x), atol=1e-4)
    with pytest.raises(UserError, match="more images"):
        fit_whitening(x[:8])


def test_a_domain_neither_sees_nor_moves_another():
    objective, labels = PairObjective(MultiSimilaritySettings()), torch.arange(12) // 2
    vectors = torch.randn(4, 12, 8, requires_grad=True)
    within_domains(objective, vectors, labels, labels).loss.backward()
    for domain in range(4):
        alone = vectors[domain].detach().requires_grad_()
        objective(alone, labels, labels).loss.div(4).backward()
        assert vectors.grad is not None and alone.grad is not None
        assert torch.allclose(vectors.grad[domain], alone.grad, atol=1e-6)
