"""A teacher's vectors of the clean images, kept beside the training."""

from pathlib import Path

import numpy as np
import pytest
import torch

import image_copies.models.training.teacher as teacher_rows
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural.sample import write_pictures
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training.teacher import load_teacher_vectors


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    folder = tmp_path_factory.mktemp("pictures")
    list(write_pictures(folder, "T", 20, seed=0, workers=1))
    return find_images(folder)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("teacher") / "teacher.safetensors"
    torch.manual_seed(1)
    save_descriptor(path, Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16)), 48, {})
    return path


def test_vectors_are_the_teachers_and_computed_once(
    images: ImageSet, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_teacher_vectors(teacher, images, 16, tmp_path, 0)
    blocks = embed_images(load_descriptor(teacher), images, EmbeddingSettings(workers=0))
    vectors = np.concatenate([block.vectors for block in blocks])
    vectors -= vectors.mean(axis=0)
    assert np.allclose(first.numpy(), vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=0.02)  # kept as halves
    monkeypatch.setattr(teacher_rows, "_embed", None)
    assert torch.equal(load_teacher_vectors(teacher, images, 16, tmp_path, 0), first)
    with pytest.raises(TypeError):  # other images are embedded again
        load_teacher_vectors(teacher, images.select(images.ids[:5]), 16, tmp_path, 0)


def test_torn_vectors_are_computed_again(images: ImageSet, teacher: Path, tmp_path: Path) -> None:
    first = load_teacher_vectors(teacher, images, 16, tmp_path, 0)
    (tmp_path / "teacher.safetensors").write_bytes(b"torn")
    assert torch.equal(load_teacher_vectors(teacher, images, 16, tmp_path, 0), first)


def test_a_teacher_that_does_not_fit_is_named(images: ImageSet, teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 16 dimensions, the model 8"):
        load_teacher_vectors(teacher, images, 8, tmp_path, 0)
    with pytest.raises(UserError, match="no such file"):
        load_teacher_vectors(tmp_path / "none", images, 16, tmp_path, 0)
    with pytest.raises(UserError, match=r"shipped#large: no such file.*One member .*: name all of it, `teacher: shipped`\."):
        load_teacher_vectors(Path("shipped#large"), images, 16, tmp_path, 0)
