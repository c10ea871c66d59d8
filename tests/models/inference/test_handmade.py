"""Handmade descriptors: their features, and their whitening on the training images that can be read."""

from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.models.inference import handmade
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.handmade import fit_handmade
from image_copies.models.inference.settings import EmbeddingSettings, HandmadeModelSettings
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network, save_descriptor
from image_copies.models.network.handmade import HandmadeDescriptor, _standardize
from image_copies.models.network.settings import HandmadeSettings
from tests.pictures import write_images


def pictures(count: int, seed: int = 0) -> torch.Tensor:
    """Smooth random pictures [n, 3, 64, 64], 0…1."""
    coarse = torch.rand(count, 3, 7, 7, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(coarse, (64, 64), mode="bicubic").clamp(0, 1)


def test_a_copy_is_nearer_than_any_other_picture() -> None:
    descriptor = HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=32)).eval()
    descriptor.whiten(descriptor(pictures(200), raw=True))
    originals = pictures(20, seed=1)
    copies = (0.9 * originals.flip(3) + 0.02 * torch.randn(originals.shape, generator=torch.Generator().manual_seed(2))).clamp(
        0, 1
    )
    cosines = descriptor(copies) @ descriptor(originals).T
    assert (cosines.argmax(dim=1) == torch.arange(20)).float().mean() >= 0.9
    torch.testing.assert_close(descriptor(originals).norm(dim=1), torch.ones(20))


def test_whitened_dimensions_vary_equally() -> None:
    descriptor = HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=16)).eval()
    features = descriptor(pictures(300), raw=True)
    descriptor.whiten(features)
    white = (features - descriptor.whitening_mean) @ descriptor.whitening_matrix.T
    torch.testing.assert_close(white.T @ white / len(white), torch.eye(16), atol=0.02, rtol=0)


def test_flat_pictures_have_finite_vectors_and_too_few_whiten_fewer_dimensions() -> None:
    descriptor = HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=16)).eval()
    descriptor.whiten(descriptor(pictures(100), raw=True))
    assert descriptor(torch.full((2, 3, 64, 64), 0.5)).isfinite().all()
    descriptor = HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=64))
    with pytest.raises(UserError, match=r"30 training images cannot whiten the 64 dimensions of 'gabor'.*at most 29"):
        descriptor.whiten(descriptor(pictures(30), raw=True))


def test_gabor_energies_tell_directions_of_standardised_pictures() -> None:
    descriptor = HandmadeDescriptor(HandmadeSettings(kind="gabor"))
    waves = torch.sin(torch.arange(64) * torch.pi / 2).expand(1, 3, 64, 64) * 0.4 + 0.5
    energies = descriptor.features(waves)[0].reshape(4, 8, 4, 4).mean(dim=(2, 3))
    assert energies.argmax() == 0  # the shortest wavelength, across
    assert descriptor.features(waves.mT)[0].reshape(4, 8, 4, 4).mean(dim=(2, 3)).argmax() == 4  # … and down
    images = torch.stack([picture * contrast + 0.2 for contrast, picture in zip((0.5, 0.1), torch.rand(2, 1, 9, 9), strict=True)])
    for found, image in zip(_standardize(images), images, strict=True):
        assert torch.allclose(found, (image - image.mean()) / (image.std(correction=0) + 0.01), atol=1e-5)


def test_a_checkpoint_brings_the_whitening_along(tmp_path: Path) -> None:
    descriptor = HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=24)).eval()
    descriptor.whiten(descriptor(pictures(60), raw=True))
    save_descriptor(tmp_path / "c.safetensors", descriptor, 64, {})
    loaded = load_descriptor(tmp_path / "c.safetensors")
    assert torch.equal(loaded.descriptor.eval()(pictures(3)), descriptor(pictures(3)))
    with pytest.raises(UserError, match="not a single trained network"):
        require_trained_network(loaded, tmp_path / "c.safetensors")


def write_pictures(folder: Path, count: int) -> None:
    write_images(folder, count)
    (folder / "damaged.png").write_bytes(b"no picture")


def test_few_images_whiten_fewer_dimensions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recipe with a handmade model ended in an error on as many images as it has dimensions, 256, or fewer."""
    write_pictures(tmp_path, 6)
    images, settings = find_images(tmp_path), HandmadeModelSettings(kind="gabor")
    path = tmp_path / "model" / "stage-0.safetensors"
    settings.make(path, images, workers=0)
    assert "  gabor: 6 training images can be read, which whiten 5 dimensions instead of 256" in capsys.readouterr().out
    loaded = load_descriptor(path)
    assert (loaded.descriptor.dimensions, loaded.notes) == (5, {"whitened_on": 6})
    blocks = list(embed_images(loaded, images, EmbeddingSettings(workers=0)))
    vectors = np.concatenate([block.vectors for block in blocks])
    assert vectors.shape == (7, 5) and np.linalg.norm(vectors, axis=1)[:6] == pytest.approx(1, abs=1e-5)
    settings.model_copy(update={"dimensions": 5}).make(path, images, workers=0)
    assert "instead of" not in capsys.readouterr().out


def test_two_images_are_too_few(tmp_path: Path) -> None:
    write_pictures(tmp_path, 2)
    with pytest.raises(UserError, match="2 of 3 training images can be read, gabor needs 3"):
        fit_handmade(HandmadeSettings(kind="gabor", dimensions=6), find_images(tmp_path), workers=0)


def test_the_whitening_is_the_same_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Begun by torchrun, which gives each process one thread, it differed from the same recipe's in one process."""
    features = torch.nn.functional.normalize(torch.rand(3000, 512, generator=torch.Generator().manual_seed(0)))
    monkeypatch.setattr(handmade, "compute_raw", lambda *_: features)
    write_pictures(tmp_path, 1)
    before, matrices = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            fitted, _ = fit_handmade(HandmadeSettings(kind="gabor"), find_images(tmp_path), workers=0)
            matrices.append(fitted.whitening_matrix)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*matrices)
