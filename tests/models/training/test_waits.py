"""How often a step makes the device wait for the host, or the host for the device: counted in torch's operations on the CPU."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from image_copies.data.images import ImageSet
from image_copies.models.objectives.settings import ArcFaceSettings
from image_copies.models.training import trainer as trainer_module
from image_copies.models.training.collapse import describe_spread
from image_copies.models.training.curve import read_rows
from image_copies.models.training.trainer import Trainer, read_figures
from image_copies.studies.svmax.settings import SvmaxSettings
from tests import trainings

WAITING = {  # operations that return a number, or a shape that depends on numbers, or copy constants from the host
    *("aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::_unique2", "aten::unique_dim", "aten::masked_select"),
    *("aten::equal", "aten::is_nonzero", "aten::_linalg_eigh", "aten::_linalg_svd", "aten::lift_fresh"),
    *("aten::_coalesce", "aten::coalesce"),
}


class Waits(TorchDispatchMode):
    """Counts what waits on a GPU, by operation; indexing with a mask looks for the mask's true values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.found = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        masks = name in ("aten::index", "aten::index_put", "aten::index_put_") and any(
            isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1]
        )
        if name in WAITING or masks:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


def train(images: ImageSet, folder: Path, **change: Any) -> None:
    """Train nine steps."""
    settings = trainings.make_settings(**{"stages": [{"image_size": 32, "batch_size": 3, "epochs": 1}]} | change)
    trainings.train(settings, images, folder)


def test_a_step_waits_once_at_most(images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn, steps = Trainer.step, list[Counter[str]]()

    def counted(self: Trainer, batches: Iterator[Any], *arguments: Any) -> Any:
        ready = list(batches)  # editing images is the workers' business
        with Waits() as waits:
            result = learn(self, ready, *arguments)
        steps.append(waits.found)
        return result

    monkeypatch.setattr(Trainer, "step", counted)
    train(images, tmp_path, optimizer={"kind": "sgd"})  # Adam counts its steps in tensors of the host, which no GPU waits for
    assert len(steps) == 9
    usual = [found for step, found in enumerate(steps) if step % trainer_module.STEPS_PER_MEASUREMENT]
    assert all(sum(found.values()) <= 1 for found in usual), steps
    assert [sum(found["aten::_linalg_eigh"] for found in steps), steps[0]["aten::_linalg_eigh"]] == [2, 1]


def test_figures_are_means_of_the_batches_that_have_them(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rare ones of every eighth step, the others of all: read together, as if one by one."""
    learn, figures = Trainer.step, list[dict[str, float]]()

    def noted(self: Trainer, *arguments: Any) -> Any:
        made = learn(self, *arguments)
        figures.extend(read_figures([found for found, _ in made]))
        return made

    monkeypatch.setattr(Trainer, "step", noted)
    train(images, tmp_path)
    (row,) = read_rows(tmp_path / "model")
    for name, count in (("loss", 9), ("cosine_to_own_class", 9), ("mean_singular_value", 2)):
        values = [batch[name] for batch in figures if name in batch]
        assert len(values) == count and float(row[name]) == sum(values) / count


def test_a_regularised_batch_measures_each_time() -> None:
    embeddings, labels = torch.randn(4, 8), torch.arange(4)
    objective = ArcFaceSettings().build(8, 5, 0)
    plain, regularised = (one(embeddings, labels) for one in (objective, SvmaxSettings().add_to(objective)))
    assert plain.rows is not None and describe_spread(plain.rows).items() <= regularised.logs.items()
    assert "mean_singular_value" not in plain.logs and regularised.rows is None
