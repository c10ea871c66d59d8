"""Long runs take no more and no more: memory, files, processes stay flat. Networks and pictures are tiny."""

import gc
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from image_copies.augmentations.dataset import EditedImages
from image_copies.data.images import ImageSet, find_images
from image_copies.models.inference import embed
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.backbones import BACKBONES
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training import state
from image_copies.models.training.curve import read_rows
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.steps.embed import embed_to_file
from image_copies.submissions.vectors.files import open_vectors
from tests.faults.harness import Ledger, memory, share_of
from tests.faults.workshop import draw_pictures
from tests.networks import build_edges

pytestmark = pytest.mark.faults
STEPS, IMAGES = 100 * share_of(500), 100 * share_of(5_000)
GROWTH = 4.0  # MiB between a fifth of the way and its end: what an allocator may still find to keep


class Watch:
    """Looks now and then at what this process takes: MiB that are resident, handles, threads, children, temporary files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        monkeypatch.setenv("TMPDIR", str(self.temporary))
        monkeypatch.setattr(tempfile, "tempdir", None)
        self.seen: list[list[float]] = []

    def look(self) -> None:
        gc.collect()
        children = list(Path("/proc/self/task").glob("*/children"))
        counts = (
            len(list(Path("/proc/self/fd").iterdir())),
            threading.active_count(),
            sum(len(path.read_text().split()) for path in children),
            len(list(self.temporary.rglob("*"))),
        )
        self.seen.append([1024 * memory("VmRSS"), *counts])

    def check(self, what: str, cases: int, started: float, ledger: Ledger) -> None:
        """From a fifth of the way on nothing may grow."""
        early, last = self.seen[len(self.seen) // 5], self.seen[-1]
        grown = [now - then for then, now in zip(early, last, strict=True)]
        failures = [] if grown[0] <= GROWTH and max(grown[1:]) <= 0 else [str(self.seen)]
        ledger(f"long run: {cases:,} {what}: {early} → {last}", 1, failures, time.monotonic() - started)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> DescriptorSettings:
    """A descriptor of one convolution."""
    monkeypatch.setitem(BACKBONES, "edges", build_edges)
    return DescriptorSettings(backbone="edges", dimensions=8)


def test_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: DescriptorSettings, ledger: Ledger) -> None:
    draw_pictures(tmp_path / "pictures", "T", 200, 1, side=16)
    images, watch, steps = find_images(tmp_path / "pictures"), Watch(tmp_path, monkeypatch), [0]
    learn, started = Trainer.step, time.monotonic()

    def watched(self: Trainer, *arguments: Any) -> Any:
        if steps[0] % (STEPS // 20) == 0:
            watch.look()
        steps[0] += 1
        return learn(self, *arguments)

    def simulated(self: EditedImages, key: tuple[int, int, int]) -> tuple[Tensor, int]:
        return torch.full((3, 16, 16), key[1] % 256, dtype=torch.uint8), key[1]

    monkeypatch.setattr(Trainer, "step", watched)
    monkeypatch.setattr(EditedImages, "__getitem__", simulated)
    monkeypatch.setattr(state, "SAVE_INTERVAL_SECONDS", 1.0)
    stages = [{"image_size": 16, "batch_size": 2, "epochs": STEPS // 100}]
    settings = ModelSettings.model_validate({"descriptor": tiny, "workers": 0, "stages": stages})
    Trainer(settings, images, images, tmp_path / "model", tmp_path / "cache", seed=0).train()
    watch.look()
    assert int(read_rows(tmp_path / "model")[-1]["step"]) == STEPS
    watch.check("training steps", STEPS, started, ledger)


def test_embedding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: DescriptorSettings, ledger: Ledger) -> None:
    path = draw_pictures(tmp_path / "pictures", "T", 1, 1, side=16)[0]
    images, watch, started = (
        ImageSet([str(number) for number in range(IMAGES)], [path] * IMAGES),
        Watch(tmp_path, monkeypatch),
        time.monotonic(),
    )
    save_descriptor(tmp_path / "model.safetensors", Descriptor(tiny), 16, {})

    class Simulated:
        """A loader whose pictures are there at once."""

        def __init__(self, dataset: Any, batch: int, **_: Any) -> None:
            self.count, self.batch = len(dataset), batch

        def __iter__(self) -> Iterator[dict[int, tuple[Tensor, Tensor]]]:
            watch.look()  # once for each shard
            for first in range(0, self.count, self.batch):
                number = min(self.batch, self.count - first)
                pixels = torch.full((number, 3, 16, 16), first % 251, dtype=torch.uint8)
                yield {16: (pixels, torch.ones(number, dtype=torch.bool))}

    monkeypatch.setattr(embed, "DataLoader", Simulated)
    settings = EmbeddingSettings(workers=0, shard=IMAGES // 20, batch_size=100)
    embed_to_file(tmp_path / "model.safetensors", images, settings, tmp_path / "vectors.h5")
    assert len(open_vectors(tmp_path / "vectors.h5").ids) == IMAGES
    watch.check("embedded images", IMAGES, started, ledger)
