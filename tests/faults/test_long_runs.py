"""Long runs take no more and no more: memory, files, processes stay flat. Networks and pictures are tiny."""

import gc
import http.client
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import uvicorn
from torch import Tensor, nn

from image_copies.augmentations.dataset import EditedImages
from image_copies.data.images import ImageSet, find_images
from image_copies.matching.explorer.service import service_router
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.web.app import make_app, open_listener
from image_copies.models.inference import embed
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.backbones import BACKBONES
from image_copies.models.network.base import Backbone
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training import trainer as trainer_module
from image_copies.models.training.curve import read_rows
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.steps.embed import embed_to_file
from image_copies.submissions.vectors.files import open_vectors
from tests.faults.harness import Ledger, share_of
from tests.faults.workshop import draw_pictures
from tests.pictures import draw_noise, encode
from tests.services import open_service

pytestmark = pytest.mark.faults
STEPS, IMAGES, REQUESTS = 100 * share_of(500), 100 * share_of(5_000), 40 * share_of(500)
GROWTH = 4.0  # MiB between a fifth of the way and its end: what an allocator may still find to keep
MIB = 2**20


@dataclass(frozen=True)
class Use:
    """What a process takes.

    Attributes:
        memory: MiB that are resident.
        handles: Open files.
        threads: Its threads.
        processes: Its children.
        files: Temporary ones.
    """

    memory: float
    handles: int
    threads: int
    processes: int
    files: int


class Watch:
    """Looks at this process now and then."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        monkeypatch.setenv("TMPDIR", str(self.temporary))
        monkeypatch.setattr(tempfile, "tempdir", None)
        self.seen: list[Use] = []

    def look(self) -> None:
        gc.collect()
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB
        handles, files = len(list(Path("/proc/self/fd").iterdir())), len(list(self.temporary.rglob("*")))
        parents = [path.read_text(errors="replace").rpartition(")")[2].split()[1] for path in stats()]
        self.seen.append(Use(memory, handles, threading.active_count(), parents.count(str(os.getpid())), files))

    def check(self, what: str, cases: int, started: float, ledger: Ledger) -> None:
        """From a fifth of the way on nothing may grow."""
        early, last = self.seen[len(self.seen) // 5], self.seen[-1]
        grown = last.memory - early.memory
        kept = [(use.handles, use.threads, use.processes, use.files) for use in (early, last)]
        flat = grown <= GROWTH and all(now <= then for then, now in zip(*kept, strict=True))
        told = f"{early.memory:.1f} → {last.memory:.1f} MiB, handles, threads, processes, files {kept[0]} → {kept[1]}"
        failures = [] if flat else [f"MiB: {[round(use.memory, 1) for use in self.seen]}"]
        ledger(f"long run: {cases:,} {what}: {told}", 1, failures, time.monotonic() - started)


def stats() -> Iterator[Path]:
    """What the system says of each process, as far as it lives long enough."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        if path.exists():
            yield path


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> DescriptorSettings:
    """A descriptor of one convolution."""

    def build(*_: object) -> Backbone:
        return Backbone(nn.Conv2d(3, 4, 8, stride=8), lambda convolution, images: convolution(images).relu(), 4)

    monkeypatch.setitem(BACKBONES, "tiny", build)
    return DescriptorSettings(backbone="tiny", dimensions=8)


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
    monkeypatch.setattr(trainer_module, "SAVE_INTERVAL_SECONDS", 1.0)
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


def test_search_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: DescriptorSettings, ledger: Ledger) -> None:
    draw_pictures(tmp_path / "pictures", "R", 60, 1, side=48)
    save_descriptor(tmp_path / "model.safetensors", Descriptor(tiny), 16, {})
    service = open_service(tmp_path, checkpoint_extractor(tmp_path / "model.safetensors"))
    before = sorted(tmp_path.rglob("*"))
    watch, started = Watch(tmp_path, monkeypatch), time.monotonic()
    with open_listener(0) as listener:
        server = uvicorn.Server(uvicorn.Config(make_app(service_router(service)), log_level="error"))
        running = threading.Thread(target=server.run, args=([listener],))
        running.start()
        while not server.started:
            time.sleep(0.01)
        asked = ask_often(listener.getsockname()[1], watch)
        server.should_exit = True
        running.join()
    assert asked[200] >= REQUESTS // 2 and not [code for code in asked if code not in (200, 400, 404, 413)], asked
    assert [path for path in sorted(tmp_path.rglob("*")) if path != watch.temporary] == before  # it writes nothing
    watch.check("service requests", REQUESTS, started, ledger)


def ask_often(port: int, watch: Watch) -> dict[int, int]:
    """Everything that the page and programs can ask for, in turn; how often each status was answered."""
    asked: dict[int, int] = {}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    data, text = {"content-type": "application/octet-stream"}, {"content-type": "application/json"}
    for number in range(REQUESTS):
        if number % (REQUESTS // 20) == 0:
            watch.look()
        kind = number % 6
        if kind == 0:
            connection.request("POST", "/api/matches", picture(number), data)
        elif kind == 1:
            connection.request("POST", "/api/vectors", json.dumps({"vectors": [[1.0] * 8]}), text)
        elif kind == 2:
            connection.request("POST", "/api/matches", b"no picture", data)
        else:
            connection.request("GET", ("/", "/api/about", "/page/none")[kind - 3])
        response = connection.getresponse()
        response.read()
        asked[response.status] = asked.get(response.status, 0) + 1
    watch.look()
    connection.close()
    return asked


def picture(number: int) -> bytes:
    """A small picture as PNG, another one for each number."""
    return encode(draw_noise(number))
