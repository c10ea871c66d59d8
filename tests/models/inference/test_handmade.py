"""Handmade descriptors are whitened on the training images that can be read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.data.procedural import draw_picture
from image_copies.models.inference import handmade
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.handmade import fit_handmade
from image_copies.models.inference.settings import EmbeddingSettings, HandmadeModelSettings
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.settings import HandmadeKind, HandmadeSettings


def write_pictures(folder: Path, count: int) -> None:
    for number in range(count):
        Image.fromarray(draw_picture(np.random.default_rng(number), 96)).save(folder / f"{number}.png")
    (folder / "damaged.png").write_bytes(b"no picture")


@pytest.mark.parametrize("kind", ["gabor", "pixels"])
def test_few_images_whiten_fewer_dimensions(tmp_path: Path, kind: HandmadeKind, capsys: pytest.CaptureFixture[str]) -> None:
    """A recipe with a handmade model ended in an error on as many images as it has dimensions, 256, or fewer."""
    write_pictures(tmp_path, 6)
    images, settings = find_images(tmp_path), HandmadeModelSettings(kind=kind)
    path = tmp_path / "model" / "stage-0.safetensors"
    settings.make(path, images, workers=0)
    assert f"  {kind}: 6 training images can be read, which whiten 5 dimensions instead of 256" in capsys.readouterr().out
    loaded = load_descriptor(path)
    assert (loaded.descriptor.dimensions, loaded.notes) == (5, {"whitened_on": 6})
    blocks = list(embed_images(loaded, images, EmbeddingSettings(workers=0)))
    vectors = np.concatenate([block.vectors for block in blocks])
    assert vectors.shape == (7, 5) and np.linalg.norm(vectors, axis=1)[:6] == pytest.approx(1, abs=1e-5)
    settings.model_copy(update={"dimensions": 5}).make(path, images, workers=0)
    assert "instead of" not in capsys.readouterr().out


def test_two_images_are_too_few(tmp_path: Path) -> None:
    write_pictures(tmp_path, 2)
    with pytest.raises(UserError, match="2 of 3 training images can be read, pixels needs 3"):
        fit_handmade(HandmadeSettings(kind="pixels", dimensions=6), find_images(tmp_path), workers=0)


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
