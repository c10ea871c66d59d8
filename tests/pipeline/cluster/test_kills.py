"""Workers and nodes killed at random moments change nothing in the result, and leave no process behind."""

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.images import find_images
from image_copies.data.procedural import write_pictures
from image_copies.data.shards import use_engine
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.pipeline.cluster import RayEngine, _connect
from tests.pipeline.cluster.conftest import STORE_BYTES
from tests.pipeline.cluster.processes import find_left, processes_below

pytestmark = pytest.mark.cluster
KILLS, SHARDS, SHARD = 20, 40, 15


class Killer:
    """Kills a worker or, each fifth time, a whole node, whenever the run has gone on since the last time."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.chance, self.over = random.Random(0), threading.Event()
        self.seen: set[int] = set()
        self.killed: list[str] = []

    def kill(self) -> None:
        """Kill until there have been enough, or the run is over; in the main thread, which alone may start nodes."""
        finished = -1
        while len(self.killed) < KILLS and not self.over.is_set():
            count = len(list(self.folder.glob(".v-shards-*/*.h5")))
            workers = [process for process, name in processes_below({os.getpid()}).items() if name.startswith("ray::work_on")]
            self.seen.update(workers)
            if count <= finished or not workers:
                self.over.wait(0.1)
                continue
            finished = count
            self.over.wait(0.3 * self.chance.random())
            if len(self.killed) % 5 == 4:
                node = self.chance.choice(self.cluster.list_all_nodes()[1:])
                self.cluster.remove_node(node, allow_graceful=False)
                self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
                self.killed.append("node")
            else:
                with suppress(ProcessLookupError):
                    os.kill(self.chance.choice(workers), signal.SIGKILL)
                    self.killed.append("worker")


def test_kills_of_workers_and_nodes_change_nothing(three_nodes: Any, tmp_path: Path) -> None:
    from image_copies.models.shipped import SHIPPED
    from image_copies.pipeline.steps.embed import embed_to_file

    list(write_pictures(tmp_path / "pictures", "T", SHARDS * SHARD, seed=1, workers=1))
    images = find_images(tmp_path / "pictures")
    settings = EmbeddingSettings(shard=SHARD, workers=0, image_size=320)
    for name in ("alone", "together"):
        (tmp_path / name).mkdir()
    embed_to_file(SHIPPED, images, settings, tmp_path / "alone/v.h5")
    ray = pytest.importorskip("ray")
    killer, engine = Killer(three_nodes, tmp_path / "together"), RayEngine(ray, three_nodes.address)
    _connect(ray, three_nodes.address)  # in the main thread, which alone sets signal handlers

    def embed() -> None:
        try:
            embed_to_file(SHIPPED, images, settings, tmp_path / "together/v.h5")
        finally:
            killer.over.set()

    with use_engine(engine), ThreadPoolExecutor(1) as pool:
        running = pool.submit(embed)
        killer.kill()
        running.result()
    ray.shutdown()
    assert (tmp_path / "together/v.h5").read_bytes() == (tmp_path / "alone/v.h5").read_bytes()
    assert len(killer.killed) == KILLS and killer.killed.count("node") == KILLS // 5
    assert [path.name for path in (tmp_path / "together").iterdir()] == ["v.h5"]
    assert not find_left(killer.seen, 30)
