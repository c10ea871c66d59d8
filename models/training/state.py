"""The training state on disk: tensors as safetensors, everything else as JSON, consistent at any moment.

`state.json` contains the current step; each process writes its part, `state-<step>-<process>.safetensors`. The JSON file is
replaced last, by an atomic rename, so that a kill leaves either the old state or the new one. Nothing is pickled.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file
from image_copies.data.images import ImageSet
from image_copies.data.settings import read_recorded

from .model_settings import ModelSettings
from .settings import StageSettings

STATE = "state.json"
# plus twice the time of writing, and the steps between two checks: what a killed run loses
SAVE_INTERVAL_SECONDS = 30.0
# times the duration of saving: a longer interval, since a million classes take seconds, and would be terabytes a day
SAVING_PAUSE = 120.0
LONGEST_INTERVAL_SECONDS = 600.0
MIN_RELATIVE_FALL = 0.01  # of the loss, to count as falling
Identity = dict[str, Any]  # of JSON values


@dataclass
class Progress:
    """The position of a training."""

    stage: int = 0  # index of the next or current stage, from 0
    epoch: int = 0  # next or current epoch of the stage, from 0
    batch: int = 0  # next batch of the epoch, from 0
    step: int = 0  # optimiser steps done, over all stages
    seconds: float = 0.0  # seconds spent in the stage
    images: int = 0  # images that this process has seen in the stage
    sums: dict[str, float] = field(default_factory=dict)  # sums of this epoch's figures so far, by name
    counts: dict[str, int] = field(default_factory=dict)  # of the batches in each of these sums
    lowest_loss: float = float("inf")
    epochs_since_lowest: int = 0  # epochs since the loss last fell by at least 1 %

    def end_epoch(self, loss: float) -> None:
        """Go on to the next epoch, after one with this mean loss."""
        falls = loss < self.lowest_loss * (1 - MIN_RELATIVE_FALL)
        self.epochs_since_lowest = 0 if falls else self.epochs_since_lowest + 1
        self.lowest_loss = loss if falls else self.lowest_loss
        self.epoch, self.batch, self.sums, self.counts = self.epoch + 1, 0, {}, {}

    def end_reason(self, stage: StageSettings, loss: float) -> str:
        """Say what ends the stage after an epoch with this mean loss; empty where it goes on."""
        if stage.stop_loss is not None and loss < stage.stop_loss:
            return "loss"
        if stage.plateau_epochs is not None and self.epochs_since_lowest >= stage.plateau_epochs:
            return "plateau"
        return "epochs" if self.epoch >= stage.epochs else ""


class StateSaver:
    """Saves the training state when it is time, on all processes together."""

    def __init__(self, folder: Path, identity: Identity, fabric: Fabric) -> None:
        self._folder = folder
        self._identity = identity
        self._fabric = fabric
        self._saved, self._took = time.monotonic(), 0.0

    def due(self) -> bool:
        """Whether it is time to save, by the first process's clock."""
        pause = max(SAVE_INTERVAL_SECONDS, min(SAVING_PAUSE * self._took, LONGEST_INTERVAL_SECONDS))
        return self._fabric.broadcast(time.monotonic() - self._saved > pause)

    def save(self, progress: Progress, state: Mapping[str, Any]) -> None:
        """Save the state (`save_state`)."""
        started = time.monotonic()
        save_state(self._folder, self._identity, progress, state, self._fabric)
        self._saved = time.monotonic()
        self._took = self._saved - started


def save_state(
    folder: Path, identity: Identity, progress: Progress, state: Mapping[str, Any], fabric: Fabric
) -> None:
    """Save this process's part of the training state: nested dicts and lists of tensors and JSON values.

    All processes do this together; the state counts once all parts are written, and older ones are removed.

    Raises:
        UserError: The files cannot be written, for example because the disk is full.
    """
    part = folder / f"state-{progress.step}-{fabric.global_rank}.safetensors"
    about = {
        "identity": identity,
        "processes": fabric.world_size,
        "threads": torch.get_num_threads(),
        "progress": asdict(progress),
    }
    tensors: dict[str, Tensor] = {}
    plain = _to_json(state, tensors)
    try:
        with whole_file(part) as temporary:
            save_file(tensors, temporary, metadata={"state": json.dumps(plain)})
        fabric.barrier()
        if fabric.global_rank == 0:
            with whole_file(folder / STATE) as temporary:
                temporary.write_text(json.dumps(about, indent=1), encoding="utf-8")
        fabric.barrier()
        for old in folder.glob(f"state-*-{fabric.global_rank}.safetensors"):
            if old != part:
                old.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"the training state cannot be written to {part} ({error}). The last complete state is kept: "
            "make room and run the same command again."
        ) from error


def load_state(folder: Path, identity: Identity, fabric: Fabric) -> tuple[Progress, dict[str, Any]] | None:
    """Load this process's saved state; None if there is none, or only that of another, finished training.

    Raises:
        UserError: The state belongs to another, unfinished training, which a new one would overwrite; it cannot be read; or it
            was saved in the middle of a stage by another number of processes.
    """
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        progress = Progress(**about["progress"])
        if different := _describe_differences(about["identity"], identity):
            if _is_finished(about["identity"], progress):
                fabric.print(
                    f"  the training in {folder} is finished, but was another one ({different}): training starts again"
                )
                return None
            raise UserError(
                f"{path} belongs to another, unfinished training; saved → now: {different}. Restore its settings and images to "
                "continue it, or delete this file to train from the beginning."
            )
        if about["processes"] != fabric.world_size and (progress.epoch or progress.batch):
            raise UserError(
                f"{path} was saved in the middle of a stage by {about['processes']} processes, each with a part of the class "
                f"matrix; now there are {fabric.world_size}. Start as many (torchrun --nproc-per-node {about['processes']})."
            )
        notice = _describe_threads(about["threads"], fabric)
        if notice and not _is_finished(about["identity"], progress):
            fabric.print(f"  warning: {notice}", flush=True)
        own = (
            folder / f"state-{progress.step}-{min(fabric.global_rank, about['processes'] - 1)}.safetensors"
        )
        with safe_open(own, framework="pt") as file:
            plain = json.loads(file.metadata()["state"])
        return progress, _from_json(plain, load_file(own))
    except (
        OSError,
        SafetensorError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
        AttributeError,
    ) as error:
        raise UserError(
            f"{path} or its neighbour cannot be read ({error}). Delete it to train from the beginning."
        ) from error


def _describe_threads(saved: int, fabric: Fabric) -> str:
    """Describe that a training goes on with another number of threads than it was saved with; "" where nothing depends on it."""
    now = torch.get_num_threads()
    if fabric.device.type != "cpu" or saved == now:
        return ""
    return (
        f"the training was saved with {saved} threads and goes on with {now}. On a CPU sums are split among them: the weights "
        f"will differ from those of a training that was not stopped. For the same weights set OMP_NUM_THREADS={saved}, or "
        "side_by_side as it was: with it each model has one."
    )


def identify_training(
    settings: ModelSettings,
    classes: ImageSet,
    overlays: ImageSet,
    labels: list[int] | None,
    seed: int,
    name: str,
) -> Identity:
    """Return what identifies a training, so that a saved state is continued only by the same one.

    This is the model's name, its settings and seed, and the images in order with their file sizes; not the number of workers or
    how the trained model embeds.
    """
    return {
        "model": name,  # which, with the stage, is part of the seed of order and edits
        "seed": seed,
        "settings": _describe_settings(settings),
        "classes and their order": _describe_images(classes),
        "overlays": _describe_images(overlays),
        "labels": None if labels is None else hashlib.sha256(json.dumps(labels).encode()).hexdigest()[:8],
    }


def _describe_settings(settings: ModelSettings) -> dict[str, Any]:
    return settings.what_trains().model_dump(mode="json")


def _describe_images(images: ImageSet) -> str:
    """Describe images by count, first and last id and a digest without modification times, so that copies are the same images."""
    ends = f"{images.ids[0]} to {images.ids[-1]}" if images.ids else "none"
    return f"{len(images)} images, {ends}, digest {images.digest(times=False)[:16]}"


def _is_finished(identity: Identity, progress: Progress) -> bool:
    """Whether all stages of the training with this identity are done."""
    return progress.stage >= len(identity["settings"]["stages"])


def _describe_differences(saved: Identity, wanted: Identity) -> str:
    """Describe the differences; "" if equal. Settings that were added since count as equal while they have their defaults."""
    if saved == wanted:
        return ""
    try:
        saved = saved | {"settings": _describe_settings(read_recorded(ModelSettings, saved["settings"]))}
    except ValidationError as error:
        first = error.errors()[0]
        return f"settings: saved ones cannot be read by this version ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    before = _flatten_keys({key: saved.get(key) for key in wanted})
    now = _flatten_keys(wanted)
    names = [name for name in before | now if before.get(name) != now.get(name)]
    return "; ".join(f"{name}: {before.get(name)} → {now.get(name)}" for name in names)


def _flatten_keys(value: Any, name: str = "") -> dict[str, Any]:
    """Flatten nested dicts and lists to one dict with keys joined by dots; list items are numbered from 1."""
    if isinstance(value, list):
        value = {str(number): item for number, item in enumerate(value, 1)}
    if not isinstance(value, dict):
        return {name: value}
    return {
        path: leaf
        for key, item in value.items()
        for path, leaf in _flatten_keys(item, f"{name}.{key}" if name else key).items()
    }


def _to_json(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Convert `value` to JSON; tensors are copied to `tensors` and replaced by their names."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"items": [[key, _to_json(item, tensors)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_to_json(item, tensors) for item in value]
    return value


def _from_json(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, dict):
        return (
            tensors[value["tensor"]]
            if "tensor" in value
            else {key: _from_json(item, tensors) for key, item in value["items"]}
        )
    return [_from_json(item, tensors) for item in value] if isinstance(value, list) else value
