"""PCA before whitening: vectors of a whitening descriptor that step 03 can reduce."""

from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data.images import find_images
from image_copies.data.procedural import write_pictures
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.embedders import embed_with_all
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.inference.torch_embedder import load_embedder
from image_copies.models.network.checkpoint import Checkpoint, load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.network.whitening import fit_whitening
from image_copies.submissions.ensemble.projection import fit_projection
from image_copies.submissions.scoring.retrieval import recall_at


def test_pca_after_whitening_keeps_what_the_sample_underestimated() -> None:
    """200 dimensions, of which 10 tell 30 classes apart; the others are noise of a tenth of the spread. The order decides."""
    rng = np.random.default_rng(0)
    spread = np.concatenate([np.ones(10), np.full(190, 0.1)])
    classes = np.repeat(np.arange(30), 8)
    centres = rng.normal(size=(30, 200)) * spread * (spread == 1)
    vectors = (centres[classes] + 0.15 * rng.normal(size=(240, 200)) * spread).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    first_pca = fit_projection(unit, 10).apply(unit, 10, -0.5)
    whitened = torch.nn.functional.normalize(fit_whitening(torch.from_numpy(unit))(torch.from_numpy(unit))).numpy()
    then_pca = fit_projection(whitened, 10).apply(whitened, 10, 0.0)
    assert recall_at(first_pca, classes, (1,))[1] > 0.95 and recall_at(then_pca, classes, (1,))[1] < 0.6


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    descriptor = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8, whiten=True))
    descriptor.whitening_matrix.copy_(torch.diag(torch.arange(1.0, 9.0)))
    descriptor.whitening_mean.fill_(0.1)
    path = tmp_path_factory.mktemp("model") / "stage-1.safetensors"
    save_descriptor(path, descriptor, 32, {})
    return path


def test_vectors_before_whitening_are_the_raw_ones_at_unit_length(checkpoint: Path, tmp_path: Path) -> None:
    list(write_pictures(tmp_path, "T", 6, seed=0, workers=1))
    images, loaded = find_images(tmp_path), load_descriptor(checkpoint)
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
