"""Part of benchmarks/gpu.py: trainings that must agree to the last bit, repeated and resumed."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from gpu_sizes import Sizes
from gpu_steps import Row

from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import write_pictures
from image_copies.models.training import state, trainer
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer


def measure_determinism(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare the checkpoints of two trainings, and of one that was stopped within an epoch and continued."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        list(write_pictures(folder / "pictures", "T", sizes.pictures, 0))
        images = find_images(folder / "pictures")
        first = _train_and_digest(folder / "first", images, sizes, None)
        for what, other in (
            ("two trainings", _train_and_digest(folder / "second", images, sizes, None)),
            ("one stopped and resumed", _train_and_digest(folder / "third", images, sizes, stop=max(2, sizes.epochs * 4 // 3))),
        ):
            yield Row(f"{what}, digests", f"{first[:12]} {other[:12]}", "equal", first == other, True)


def _train_and_digest(folder: Path, images: ImageSet, sizes: Sizes, stop: int | None) -> str:
    """Train; return the digest of the weights. A first attempt is interrupted before the step `stop`."""
    settings = ModelSettings.model_validate(
        {
            "descriptor": sizes.trained,
            "precision": sizes.precision,
            "deterministic": True,
            "stages": [{"image_size": 64, "batch_size": min(64, len(images) // 2), "epochs": sizes.epochs}],
        }
    )

    def train() -> Path:
        return Trainer(settings, images, images, folder, folder.parent / "cache", seed=0).train()

    if stop is not None:
        with _stopping_at(stop), suppress(KeyboardInterrupt):
            train()
    return hashlib.sha256(train().read_bytes()).hexdigest()


@contextmanager
def _stopping_at(step: int) -> Iterator[None]:
    """Within the block, training saves its state after every step, and is interrupted at `step`."""
    learn, calls = Trainer.step, list[int]()

    def stopping(self: Trainer, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt
        return learn(self, *arguments)

    saving = patch.multiple(state, SAVE_INTERVAL_SECONDS=0.0, SAVING_PAUSE=0.0)
    with saving, patch.object(trainer, "STEPS_PER_CHECK", 1), patch.object(Trainer, "step", stopping):
        yield
