"""The step that a GPU repeats as one graph, here without a GPU: fixed places, rates that change, and what is not captured."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from image_copies.data.images import ImageSet
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.objectives.base import ObjectiveOutput
from image_copies.models.training import capture, trainer
from image_copies.models.training.capture import suits_graph
from image_copies.models.training.curve import read_rows
from image_copies.models.training.schedule import build_optimizers
from image_copies.models.training.trainer import Trainer
from tests import trainings

RECIPE: dict[str, Any] = {
    "optimizer": {"learning_rate": 2.0**-10},  # which, with its eighths, float32 holds exactly
    "scheduler": {"warmup_steps": 8},
    "stages": [{"image_size": 32, "batch_size": 3, "epochs": 3}],  # of 10 images: nine steps
}
REPEATED = {"sampling": {"kind": "repeated", "copies": 2}}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU counts as a device with graphs, and Adam is fused, so that it reads its rate from a tensor."""
    monkeypatch.setattr(capture, "GRAPH_DEVICES", ("cpu",))

    def build(descriptor: Any, objective: Any, settings: Any, factor: float, fused: bool) -> list[torch.optim.Optimizer]:
        return build_optimizers(descriptor, objective, settings, factor, fused=True)

    monkeypatch.setattr(trainer, "build_optimizers", build)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[capture.Work]:
    """Instead of CUDA's: captured work is done again in the same places, and its output overwrites that of the time before."""
    found: list[capture.Work] = []

    def record(work: capture.Work, aside: Any) -> tuple[Callable[[], object], ObjectiveOutput]:
        found.append(work)
        output = ObjectiveOutput(torch.zeros(()), {"cosine_to_own_class": torch.zeros(())}, torch.zeros(3, 16))

        def repeat() -> None:
            done = work()
            for place, value in zip(_tensors(output), _tensors(done), strict=True):
                place.copy_(value)

        return repeat, output

    monkeypatch.setattr(capture, "record_graph", record)
    return found


def _tensors(output: ObjectiveOutput) -> list[Tensor]:
    return [value for value in (output.loss, output.rows, *output.logs.values()) if isinstance(value, Tensor)]


def train(images: ImageSet, folder: Path, **change: Any) -> tuple[bytes, list[str]]:
    """Return the trained weights and the losses of the curve."""
    path = trainings.train(trainings.make_settings(**RECIPE | change), images.select(images.ids[:10]), folder)
    weights = load_descriptor(path).descriptor.state_dict().values()
    return b"".join(value.numpy().tobytes() for value in weights), [row["loss"] for row in read_rows(path.parent)]


def test_repeated_steps_make_the_same_weights(images: ImageSet, tmp_path: Path, captured: list[capture.Work]) -> None:
    assert train(images, tmp_path / "graph") == train(images, tmp_path / "never", graph="never")
    assert len(captured) == 1


def test_what_cannot_be_captured_goes_on_without_a_graph(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(work: Any, aside: Any) -> Any:
        for parameter in work.func.__self__.descriptor.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)  # memory of the capture, in which nothing was computed
        raise RuntimeError("operation not permitted when stream is capturing\nCompile with TORCH_USE_CUDA_DSA.")

    monkeypatch.setattr(capture, "record_graph", refuse)
    found = train(images, tmp_path / "graph")
    lines = [line for line in capsys.readouterr().out.splitlines() if "graph" in line]
    assert lines == [
        "  steps are made kernel by kernel, as no CUDA graph can be captured: operation not permitted when stream is capturing"
    ]
    assert found == train(images, tmp_path / "never", graph="never")


def test_stopped_and_resumed_it_makes_the_same_weights(
    images: ImageSet, tmp_path: Path, stop_at: Callable[[int], list[Trainer]], captured: list[capture.Work]
) -> None:
    whole = train(images, tmp_path / "whole")
    stop_at(6)
    with suppress(KeyboardInterrupt):
        train(images, tmp_path / "stopped")
    assert json.loads((tmp_path / "stopped" / "model" / "state.json").read_text())["progress"]["step"] >= 4
    assert train(images, tmp_path / "stopped") == whole
    assert len(captured) == 3


@pytest.mark.parametrize(
    ("change", "suits"),
    [
        ({}, True),
        ({"precision": "bf16", "optimizer": {"class_kind": "adam"}}, True),
        ({"objective": {"kind": "softmax"}}, True),
        ({"graph": "never"}, False),
        ({"compile": True}, False),
        ({"precision": "16"}, False),
        ({"svmax": {}}, False),
        ({"mix": {"kind": "mixup"}}, False),
        ({"turn": True}, False),
        ({"optimizer": {"accumulate": 2}}, False),
        ({"optimizer": {"kind": "muon", "class_kind": "adam"}}, False),
        ({"optimizer": {"class_kind": "adafactor"}}, False),
        (REPEATED, False),
        (REPEATED | {"objective": {"kind": "multigrain"}}, False),
    ],
    ids=str,
)
def test_only_steps_without_decisions_of_the_host_are_captured(
    change: dict[str, Any], suits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = trainings.make_settings(**RECIPE | {"stages": [{"batch_size": 8}]} | change)
    assert suits_graph(settings, CPU) is suits
    monkeypatch.setattr(capture, "group_size", lambda: 2)
    assert not suits_graph(settings, CPU)
