"""Clusters as their users start them: `ray start --head` and --ray auto; nodes that claim GPUs."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.procedural.sample import write_pictures
from image_copies.data.shards import Place, ShardWork, run_shards, use_engine
from image_copies.pipeline.cluster.connection import Connection
from image_copies.pipeline.cluster.engine import RayEngine
from image_copies.pipeline.cluster.reaper import end_cluster, mark_processes
from tests.pipeline.cluster.conftest import STORE_BYTES, start_nodes

pytestmark = pytest.mark.cluster
TOP = Path(__file__).parents[3]


@pytest.fixture
def head() -> Iterator[dict[str, str]]:
    """A cluster that `ray start --head` has started; the environment in which `auto` finds it, whichever others there are."""
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    folder = tempfile.mkdtemp(dir="/tmp")  # the paths of Ray's sockets must be short
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= mark_processes(folder)
    environment |= {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", f"--port={port}", "--num-cpus=2"]
    command += [f"--object-store-memory={STORE_BYTES}", "--include-dashboard=false", "--node-ip-address=127.0.0.1"]
    try:
        started = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert started.returncode == 0, started.stdout + started.stderr
        yield environment
    finally:
        end_cluster(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.quick
def test_auto_finds_the_cluster_that_runs_here(
    head: dict[str, str], tmp_path: Path, run_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    list(write_pictures(tmp_path / "pictures", "R", 20, seed=1, workers=1))
    arguments = ("--images", str(tmp_path / "pictures"), "--workers", "0", "--output")  # no forks of a process that used Ray
    assert run_command(tmp_path, "02_embed", *arguments, tmp_path / "alone.h5").returncode == 0
    script, output = TOP / "pipeline/02_embed.py", tmp_path / "together.h5"
    command = [sys.executable, str(script), *arguments, str(output), "--ray", "auto"]
    done = subprocess.run(command, env=head, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "20 images in 1 shards by " in done.stdout
    assert (tmp_path / "together.h5").read_bytes() == (tmp_path / "alone.h5").read_bytes()


@pytest.fixture
def node_with_a_gpu() -> Iterator[Any]:
    """A head without cores, and a node with four that claims to have a GPU."""
    with start_nodes({"num_cpus": 0}, {"num_cpus": 4, "num_gpus": 1}) as cluster:
        yield cluster


@pytest.mark.quick
def test_two_networks_share_a_gpu_and_decode_on_cores(node_with_a_gpu: Any) -> None:
    def look(state: int, shard: int, place: Place) -> tuple[str | None, int | None, int]:
        import os
        import time

        time.sleep(0.3)  # so that both workers get some
        return os.environ.get("CUDA_VISIBLE_DEVICES"), place.decoders, os.getpid()

    work: ShardWork[int, int, tuple[str | None, int | None, int]] = ShardWork(
        "looking", "number", lambda: 0, look, lambda shard: 1, uses_gpu=True
    )
    engine = RayEngine(Connection(node_with_a_gpu.address), 0.5)
    try:
        with use_engine(engine):
            found = list(run_shards(work, range(20), 20))
            assert {(device, decoders) for device, decoders, _ in found} == {("0", 1)}
            assert len({process for _, _, process in found}) == 2
            plain = ShardWork("looking", "number", lambda: 0, look, lambda shard: 1)
            assert {(device or None, decoders) for device, decoders, _ in run_shards(plain, range(8), 8)} == {(None, 0)}
    finally:
        engine.close()
