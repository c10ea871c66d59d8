"""Whitening is exact, folds into a classifier, and can be left out before PCA."""

from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.embedders import embed_with_all
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.inference.torch_embedder import load_embedder
from image_copies.models.network.checkpoint import Checkpoint, load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor, whiten
from image_copies.models.network.settings import DescriptorSettings
from image_copies.studies.multigrain.whitening import compute_folded_logits, fit_whitening


def seeded(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def whitened_by(embeddings: torch.Tensor) -> Descriptor:
    """A descriptor with the whitening of embeddings [n, 16]."""
    found = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16, whiten=True))
    found.whitening_matrix, found.whitening_mean = fit_whitening(embeddings)
    return found


@pytest.mark.parametrize("mean", [1, 10])
def test_whitened_embeddings_are_white_and_the_folded_classifier_is_the_original(mean: int) -> None:
    x = seeded(400, 16) @ seeded(16, 16) + mean
    found = whitened_by(x)
    assert torch.allclose(
        torch.cov(whiten(x, found.whitening_matrix, found.whitening_mean).T, correction=0), torch.eye(16), atol=1e-2
    )
    weight, bias = seeded(5, 16), seeded(5)
    assert torch.allclose(compute_folded_logits(found, x, weight, bias), x @ weight.T + bias, atol=1e-4)


def test_dead_dimensions_stay_out_and_folding_stays_exact() -> None:
    x = (seeded(400, 16) @ seeded(16, 16)).relu()
    x[:, [3, 11]] = 0
    x[:, 5] = x[:, 4]  # one axis without variance that is no dimension of its own
    found = whitened_by(x)
    matrix = found.whitening_matrix
    assert matrix.isfinite().all() and 0.99e3 < torch.linalg.cond(matrix.double()) < 1.01e3
    variances = torch.linalg.eigvalsh(torch.cov(whiten(x, matrix, found.whitening_mean).T, correction=0))
    assert variances[:3].abs().max() < 1e-2 and torch.allclose(variances[3:], torch.ones(13), atol=1e-2)
    weight, bias = seeded(5, 16), seeded(5)
    assert torch.allclose(compute_folded_logits(found, x, weight, bias), x @ weight.T + bias, atol=1e-4, rtol=1e-4)


def test_too_few_embeddings_and_equal_ones_are_errors() -> None:
    with pytest.raises(UserError, match="more images"):
        fit_whitening(seeded(16, 16))
    with pytest.raises(UserError, match="all the same"):
        fit_whitening(torch.ones(20, 16) / 3)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    descriptor = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8, whiten=True))
    descriptor.whitening_matrix.copy_(torch.diag(torch.arange(1.0, 9.0)))
    descriptor.whitening_mean.fill_(0.1)
    path = tmp_path_factory.mktemp("model") / "stage-1.safetensors"
    save_descriptor(path, descriptor, 32, {})
    return path


def test_vectors_before_whitening_are_the_raw_ones_at_unit_length(checkpoint: Path, images: ImageSet) -> None:
    images, loaded = images.select(images.ids[:6]), load_descriptor(checkpoint)
    plain, unwhitened = EmbeddingSettings(workers=0), EmbeddingSettings(workers=0, whiten=False)

    def embedded(settings: EmbeddingSettings) -> np.ndarray:
        return np.concatenate([block.vectors for block in embed_images(Checkpoint(loaded.descriptor, 32, {}), images, settings)])

    before, white = embedded(unwhitened), embedded(plain)
    assert np.allclose(np.linalg.norm(before, axis=1), 1, atol=1e-5) and not np.allclose(before, white, atol=0.1)
    expected = (before - 0.1) * np.arange(1, 9)
    assert np.allclose(white, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)
    tool = embed_with_all([load_embedder(checkpoint, unwhitened)], images, unwhitened)  # what match.py and export.py run
    assert np.allclose(np.concatenate([block.vectors for block in tool]), before, atol=1e-5)
    assert isinstance(loaded.descriptor, Descriptor)
    loaded.descriptor.drop_whitening()
    assert np.allclose(embedded(plain), before, atol=1e-5)
