"""Class rows of a teacher: its vectors of the clean images, kept beside the training, fixed while the student learns."""

from pathlib import Path
from typing import Any

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
from image_copies.models.training.learner import Learner
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.teacher import compute_prototypes, load_teacher_vectors
from image_copies.models.training.trainer import train_model


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


def settings(teacher: Path | None, **changed: Any) -> ModelSettings:
    return ModelSettings.model_validate(
        {
            "descriptor": {"backbone": "test_efficientnet", "dimensions": 16},
            "workers": 0,
            "teacher": teacher,
            "stages": [
                {"classes": 8, "image_size": 32, "batch_size": 8, "epochs": 3, "class_rows": "teacher"},
                {"image_size": 32, "batch_size": 8, "epochs": 1},
            ],
            **changed,
        }
    )


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


def test_prototypes_are_unit_means_of_a_classs_images() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]])
    found, prototypes = compute_prototypes(vectors, [0, 1, 2, 3], [4, 4, 7, 9])
    assert found.tolist() == [4, 7, 9]
    assert torch.allclose(prototypes, torch.tensor([[0.5**0.5, 0.5**0.5], [0.0, -1.0], [0.0, 0.0]]))


def test_rows_stay_in_the_teachers_stage_and_learn_in_the_next(
    images: ImageSet, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes, overlays = images.select(images.ids[:16]), images.select(images.ids[16:])
    rows: list[torch.Tensor] = []
    learn = Learner.learn

    def noted(self: Learner, *arguments: Any) -> Any:
        result = learn(self, *arguments)
        matrix = self.objective.class_matrix()
        assert matrix is not None
        rows.append(matrix.parameter.detach().clone())
        return result

    monkeypatch.setattr(Learner, "learn", noted)
    train_model(settings(teacher), classes, overlays, tmp_path / "model", tmp_path / "cache", seed=0)
    wanted = load_teacher_vectors(teacher, classes, 16, tmp_path / "model", 0)
    assert len(rows) == 5  # three steps with 8 classes, two with 16
    assert all(torch.allclose(part, wanted[:8], atol=1e-6) for part in rows[:3])
    assert torch.equal(rows[0], rows[2]) and not torch.equal(rows[3], rows[4])


def test_the_student_comes_nearer_to_its_teacher(images: ImageSet, teacher: Path, tmp_path: Path) -> None:
    stage = {"image_size": 32, "batch_size": 16, "intensity": 0.1, "class_rows": "teacher"}

    def similarity(epochs: int) -> float:
        learnt = settings(teacher, stages=[{**stage, "epochs": epochs}], optimizer={"learning_rate": 5e-3})
        folder = tmp_path / str(epochs)
        path = train_model(learnt, images, images, folder, tmp_path / "cache", seed=0)
        own = [block.vectors for block in embed_images(load_descriptor(path), images, EmbeddingSettings(workers=0))]
        wanted = load_teacher_vectors(teacher, images, 16, folder, 0).numpy()
        return float((np.concatenate(own) * wanted).sum(axis=1).mean())

    assert similarity(30) > similarity(1) + 0.1


def test_a_teacher_that_does_not_fit_is_named(images: ImageSet, teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 16 dimensions, the model 8"):
        load_teacher_vectors(teacher, images, 8, tmp_path, 0)
    with pytest.raises(UserError, match="no such file"):
        load_teacher_vectors(tmp_path / "none", images, 16, tmp_path, 0)
    with pytest.raises(UserError, match=r"shipped#large: no such file.*One member .*: name all of it, `teacher: shipped`\."):
        load_teacher_vectors(Path("shipped#large"), images, 16, tmp_path, 0)


def test_no_other_teacher_gives_the_rows_of_a_later_stage(
    images: ImageSet, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = {"image_size": 32, "batch_size": 8, "epochs": 1, "class_rows": "teacher"}
    own = tmp_path / "teacher.safetensors"
    own.write_bytes(teacher.read_bytes())
    learns, learn = settings(own, stages=[{**stage, "classes": 8}, stage]), Learner.learn
    steps: list[int] = []

    def killed_in_the_second_stage(self: Learner, *arguments: Any) -> Any:
        steps.append(1)
        if len(steps) == 2:
            raise KeyboardInterrupt
        return learn(self, *arguments)

    def train() -> None:
        train_model(learns, images, images, tmp_path / "m", tmp_path / "cache", seed=0)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "learn", killed_in_the_second_stage)
        with pytest.raises(KeyboardInterrupt):
            train()
    torch.manual_seed(2)
    save_descriptor(own, Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16)), 48, {})
    with pytest.raises(UserError, match=r"not the teacher that the training in .*m began with"):
        train()


@pytest.mark.parametrize(
    ("named", "changed"),
    [
        (None, {}),
        ("teacher.safetensors", {"stages": [{"epochs": 1}]}),
        ("teacher.safetensors", {"objective": {"kind": "triplet"}, "sampling": {"kind": "repeated"}}),
    ],
)
def test_a_teacher_goes_with_stages_that_take_its_rows(named: str | None, changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="teacher"):
        settings(None if named is None else Path(named), **changed)
