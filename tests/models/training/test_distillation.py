"""Trainings with a distillation term: end to end, taken up again, beside what else a batch may have."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file

import image_copies.models.training.stage as stage_run
import image_copies.models.training.teacher as teacher_rows
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural.sample import write_pictures
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings, HandmadeSettings
from image_copies.models.objectives.distillation import compare_relations
from image_copies.models.training.curve import read_rows
from image_copies.models.training.handmade import fit_handmade
from image_copies.models.training.learner import Learner
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.state import identify_training
from image_copies.models.training.teacher import VECTORS, load_teacher_vectors
from image_copies.models.training.trainer import train_model

KINDS: list[dict[str, Any]] = [{"kind": "vectors", "weight": 4.0}, {"kind": "relations", "weight": 4.0, "temperature": 0.1}]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    folder = tmp_path_factory.mktemp("pictures")
    list(write_pictures(folder, "T", 20, seed=0, workers=1))
    return find_images(folder)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_teacher(tmp_path_factory.mktemp("teacher") / "teacher.safetensors", 16, 1)


def save_teacher(path: Path, dimensions: int, seed: int) -> Path:
    torch.manual_seed(seed)
    save_descriptor(path, Descriptor(DescriptorSettings(backbone="test_nfnet", dimensions=dimensions)), 48, {})
    return path


def recipe(teacher: Path | None, **changed: Any) -> dict[str, Any]:
    return {
        "descriptor": {"backbone": "test_nfnet", "dimensions": 16},  # without batch statistics, which lag behind short trainings
        "workers": 0,
        "teacher": teacher,
        "stages": [
            {"classes": 8, "intensity": 0.1, "image_size": 32, "batch_size": 8, "epochs": 2},
            {"intensity": 0.3, "image_size": 32, "batch_size": 8, "epochs": 2},
        ],
        **changed,
    }


def train(images: ImageSet, folder: Path, settings: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The weights after a training on the first 16 images."""
    classes, overlays = images.select(images.ids[:16]), images.select(images.ids[16:])
    path = train_model(ModelSettings.model_validate(settings), classes, overlays, folder / "m", folder / "cache", seed=0)
    return load_file(path)


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """End the training before its step `step`, and save its state after every one."""
    monkeypatch.setattr(stage_run, "SAVE_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(stage_run, "MAX_SAVING_SHARE", 1e9)
    monkeypatch.setattr(stage_run, "STEPS_PER_CHECK", 1)
    learn, calls = Learner.learn, []

    def killed(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt
        return learn(*arguments)

    monkeypatch.setattr(Learner, "learn", killed)


@pytest.mark.parametrize("distillation", KINDS, ids=lambda term: term["kind"])
def test_the_student_comes_nearer_to_its_teacher(
    images: ImageSet, teacher: Path, tmp_path: Path, distillation: dict[str, Any]
) -> None:
    stage = {"image_size": 32, "batch_size": 16, "intensity": 0.1, "epochs": 25}

    def distance(folder: Path, **changed: Any) -> float:
        settings = recipe(None, stages=[stage], optimizer={"learning_rate": 2e-3}) | changed
        train(images, folder, settings)
        classes = images.select(images.ids[:16])
        checkpoint = load_descriptor(folder / "m" / "stage-1.safetensors")
        own = torch.from_numpy(
            np.concatenate([block.vectors for block in embed_images(checkpoint, classes, EmbeddingSettings(workers=0))])
        )
        wanted = load_teacher_vectors(teacher, classes, 16, folder, 0)
        if distillation["kind"] == "vectors":
            return 1 - float((own * wanted).sum(dim=1).mean())
        return float(compare_relations(own, wanted, torch.arange(16), 0.1))

    taught = distance(tmp_path / "taught", teacher=teacher, distillation=distillation)
    assert taught < 0.7 * distance(tmp_path / "plain")
    rows = read_rows(tmp_path / "taught" / "m")
    assert len(rows) == 25 and float(rows[-1]["distillation"]) < 0.7 * float(rows[0]["distillation"])


@pytest.mark.parametrize(
    "changed",
    [
        {"distillation": KINDS[0]},
        {"distillation": KINDS[1], "mix": {"kind": "cutmix"}},
        {"distillation": KINDS[1], "sampling": {"kind": "repeated", "copies": 2}, "objective": {"kind": "infonce"}},
    ],
    ids=["vectors", "relations and mix", "relations and pairs"],
)
@pytest.mark.parametrize("step", [2, 4])
def test_a_killed_training_goes_on_to_the_same_weights(
    images: ImageSet, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], step: int
) -> None:
    settings = recipe(teacher, **changed)
    whole = train(images, tmp_path / "whole", settings)
    with monkeypatch.context() as patched:
        kill_at(patched, step)
        with pytest.raises(KeyboardInterrupt):
            train(images, tmp_path / "broken", settings)
    monkeypatch.setattr(teacher_rows, "_embed", None)  # the stored vectors are taken
    broken = train(images, tmp_path / "broken", settings)
    assert all(torch.equal(broken[name], value) for name, value in whole.items())
    for name in ("loss", "distillation"):
        found, expected = ([row[name] for row in read_rows(tmp_path / place / "m")] for place in ("broken", "whole"))
        assert found == expected


def test_computing_the_teachers_vectors_draws_nothing_of_the_trainings(images: ImageSet, teacher: Path, tmp_path: Path) -> None:
    """Where they were there, as after a kill at the beginning, other batches were mixed."""
    drawn = {"mix": {"kind": "mixup", "probability": 0.5}, "objective": {"kind": "softmax"}}  # whose weights are drawn
    settings = recipe(teacher, distillation={"kind": "relations"}, **drawn)
    first = train(images, tmp_path / "first", settings)
    (tmp_path / "second" / "m").mkdir(parents=True)
    shutil.copy(tmp_path / "first" / "m" / VECTORS, tmp_path / "second" / "m" / VECTORS)
    second = train(images, tmp_path / "second", settings)
    assert all(torch.equal(second[name], value) for name, value in first.items())


def test_neither_state_nor_checkpoint_holds_the_teachers_vectors(images: ImageSet, teacher: Path, tmp_path: Path) -> None:
    shapes = []
    for number, settings in enumerate((recipe(None), recipe(teacher, distillation=KINDS[0]))):
        with pytest.MonkeyPatch.context() as patched:
            kill_at(patched, 4)
            with pytest.raises(KeyboardInterrupt):
                train(images, tmp_path / str(number), settings)
        saved = (
            *(tmp_path / str(number) / "m").glob("state-*-0.safetensors"),
            tmp_path / str(number) / "m" / "stage-1.safetensors",
        )
        assert len(saved) == 2
        shapes.append([sorted(tuple(tensor.shape) for tensor in load_file(path).values()) for path in saved])
    assert shapes[0] == shapes[1]


def test_a_state_from_before_there_was_distillation_goes_on(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = recipe(None)
    whole = train(images, tmp_path / "whole", settings)
    with monkeypatch.context() as patched:
        kill_at(patched, 4)
        with pytest.raises(KeyboardInterrupt):
            train(images, tmp_path / "old", settings)
    state = tmp_path / "old" / "m" / "state.json"
    saved = json.loads(state.read_text(encoding="utf-8"))
    assert saved["identity"]["settings"].pop("distillation", 0) is None
    state.write_text(json.dumps(saved), encoding="utf-8")
    old = train(images, tmp_path / "old", settings)
    assert all(torch.equal(old[name], value) for name, value in whole.items())


def test_another_term_is_another_training(images: ImageSet, teacher: Path) -> None:
    plain, *others = (
        identify_training(ModelSettings.model_validate(recipe(teacher, distillation=term)), images, images, None, 0, "m")
        for term in (KINDS[0], KINDS[1], KINDS[0] | {"weight": 1.0})
    )
    assert all(other != plain for other in others)


def test_no_other_teacher_takes_over(images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_teacher(tmp_path / "teacher.safetensors", 16, 1)
    settings = recipe(path, distillation=KINDS[0])
    with monkeypatch.context() as patched:
        kill_at(patched, 3)
        with pytest.raises(KeyboardInterrupt):
            train(images, tmp_path, settings)
    save_teacher(path, 16, 2)
    with pytest.raises(UserError, match=r"not the teacher that the training in .*m began with"):
        train(images, tmp_path, settings)
    (tmp_path / "m" / "state.json").unlink()
    assert train(images, tmp_path, settings)  # from the beginning


def test_a_training_does_not_overwrite_its_own_teacher(images: ImageSet, tmp_path: Path) -> None:
    train(images, tmp_path, recipe(None))
    own = tmp_path / "m" / "stage-1.safetensors"
    before, curve = own.read_bytes(), read_rows(tmp_path / "m")
    with pytest.raises(
        UserError, match=r"stage-1\.safetensors cannot teach the training in .*m, which would overwrite it\. Copy"
    ):
        train(images, tmp_path, recipe(own, distillation=KINDS[0]))
    assert own.read_bytes() == before and read_rows(tmp_path / "m") == curve


@pytest.mark.parametrize("kind", ["published", "handmade", "other dimensions"])
def test_relations_are_learnt_from_any_descriptor(images: ImageSet, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "teacher.safetensors"
    match kind:
        case "published":  # a ViT's weights alone
            path = tmp_path / "dino.pth"
            small: Any = {"patch_size": 8, "embed_dim": 64, "depth": 1, "num_heads": 1, "img_size": 32}
            vit: Any = timm.create_model("vit_small_patch16_224", num_classes=0, global_pool="", **small)
            torch.save(vit.state_dict(), path)
        case "handmade":
            descriptor, size = fit_handmade(HandmadeSettings(kind="pixels", dimensions=12), images, 0)
            save_descriptor(path, descriptor, size, {})
        case _:
            save_teacher(path, 24, 1)
    train(images, tmp_path, recipe(path, distillation={"kind": "relations"}))
    figures = [float(row["distillation"]) for row in read_rows(tmp_path / "m")]
    assert len(figures) == 4 and all(np.isfinite(figures)) and min(figures) > 0
    with pytest.raises(UserError, match=r"dimensions, the model 16: .* relations"):
        train(images, tmp_path / "v", recipe(path, distillation={"kind": "vectors"}))


def test_images_that_the_teacher_cannot_read_do_not_count(images: ImageSet, teacher: Path, tmp_path: Path) -> None:
    found = load_teacher_vectors(teacher, images, None, tmp_path, 0)
    assert found.shape == (20, 16) and found.any(dim=1).all()
    gone = ImageSet(images.ids, [*images.paths[:19], tmp_path / "gone.png"])
    assert load_teacher_vectors(teacher, gone, None, tmp_path, 0).any(dim=1).tolist() == [True] * 19 + [False]


def test_stored_vectors_must_fit_too(images: ImageSet, teacher: Path, tmp_path: Path) -> None:
    load_teacher_vectors(teacher, images, None, tmp_path, 0)
    with pytest.raises(UserError, match="has 16 dimensions, the model 8"):
        load_teacher_vectors(teacher, images, 8, tmp_path, 0)


def test_the_shipped_descriptor_may_teach() -> None:
    settings = ModelSettings.model_validate(recipe(Path("shipped"), distillation={"kind": "relations"}))
    assert settings.teacher_file is not None and settings.teacher_file.is_file()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"teacher": None, "distillation": {"kind": "vectors"}}, "distillation needs a teacher"),
        ({}, "nothing learns from the teacher: add distillation"),
        ({"distillation": {"kind": "relations", "weight": 0}}, "greater than 0"),
        ({"distillation": {"kind": "vectors", "temperature": 0.1}}, "temperature goes with kind relations"),
        (
            {
                "distillation": {"kind": "relations"},
                "descriptor": {"backbone": "test_nfnet", "dimensions": 16, "domains": "split"},
                "objective": {"kind": "triplet"},
                "sampling": {"kind": "pk", "per_class": 2},
            },
            "leave distillation or domains out",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelSettings.model_validate(recipe(Path("teacher.safetensors")) | changed)
