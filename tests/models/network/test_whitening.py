import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.models.network.whitening import compute_folded_logits, fit_whitening
from image_copies.models.objectives.base import sum_over_domains
from image_copies.models.objectives.settings import MultiSimilaritySettings


def seeded(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("mean", [1, 10])
def test_whitened_embeddings_are_white_and_the_folded_classifier_is_the_original(mean: int) -> None:
    x = seeded(400, 16) @ seeded(16, 16) + mean
    whitening = fit_whitening(x)
    assert torch.allclose(torch.cov(whitening(x).T, correction=0), torch.eye(16), atol=1e-2)
    weight, bias = seeded(5, 16), seeded(5)
    assert torch.allclose(compute_folded_logits(x, whitening, weight, bias), x @ weight.T + bias, atol=1e-4)


def test_dead_dimensions_stay_out_and_folding_stays_exact() -> None:
    x = (seeded(400, 16) @ seeded(16, 16)).relu()
    x[:, [3, 11]] = 0
    x[:, 5] = x[:, 4]  # one axis without variance that is no dimension of its own
    whitening = fit_whitening(x)
    assert whitening.matrix.isfinite().all() and 0.99e3 < torch.linalg.cond(whitening.matrix.double()) < 1.01e3
    variances = torch.linalg.eigvalsh(torch.cov(whitening(x).T, correction=0))
    assert variances[:3].abs().max() < 1e-2 and torch.allclose(variances[3:], torch.ones(13), atol=1e-2)
    weight, bias = seeded(5, 16), seeded(5)
    assert torch.allclose(compute_folded_logits(x, whitening, weight, bias), x @ weight.T + bias, atol=1e-4, rtol=1e-4)


def test_a_domain_neither_sees_nor_moves_another_and_too_few_embeddings_are_errors() -> None:
    objective, labels = MultiSimilaritySettings().build(8, 6, 0), torch.arange(12) // 2
    vectors = seeded(4, 12, 8).requires_grad_()
    sum_over_domains(objective, vectors, labels, labels).loss.backward()
    for domain in range(4):
        alone = vectors[domain].detach().requires_grad_()
        objective(alone, labels, labels).loss.backward()
        assert vectors.grad is not None and alone.grad is not None
        assert torch.allclose(vectors.grad[domain], alone.grad, atol=1e-6)
    with pytest.raises(UserError, match="more images"):
        fit_whitening(seeded(16, 16))
    with pytest.raises(UserError, match="all the same"):
        fit_whitening(torch.ones(20, 16) / 3)
