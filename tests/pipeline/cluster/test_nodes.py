"""Nodes that differ from the machine of the command: each has a mount namespace of its own, in which it sees other files."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from image_copies.data.procedural.sample import write_pictures
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.pipeline.cluster.identity import PACKAGES, describe_code
from image_copies.pipeline.cluster.reaper import end_cluster, mark_processes
from tests.faults.disk import resize, small_disk
from tests.pipeline.cluster.conftest import STORE_BYTES

pytestmark = pytest.mark.cluster
TOP = Path(__file__).parents[3]
SHARD, SHARDS = 5, 4
Embed = Callable[..., subprocess.CompletedProcess[str]]


class Cluster:
    """A cluster that `ray start` has started on this machine: a head without cores, and nodes that see what a test lets them.

    Args:
        folder: Of the cluster's own files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self._start(folder, "true", f"--head --port={port} --num-cpus=0 --include-dashboard=false")

    @contextmanager
    def node(self, change: str = "true") -> Iterator[None]:
        """A node with one core, in a mount namespace in which this shell command has been run."""
        mark = f"{self._folder}/node"
        try:
            self._start(mark, change, f"--address={self.address} --num-cpus=1")
            yield
        finally:
            end_cluster(mark)

    def _start(self, mark: str, change: str, options: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        environment |= mark_processes(mark) | {
            "RAY_TMPDIR": self._folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_AUTH_MODE": "disabled",
        }
        ray = f"{Path(sys.executable).with_name('ray')} start {options}"
        ray += f" --node-ip-address=127.0.0.1 --object-store-memory={STORE_BYTES}"
        started = subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{change} && exec {ray}"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert started.returncode == 0, started.stdout + started.stderr


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a node cannot have a mount namespace of its own here, which takes root")
    folder = tempfile.mkdtemp(dir="/tmp")  # the paths of Ray's sockets must be short
    try:
        yield Cluster(folder)
    finally:
        end_cluster(folder)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four shards of pictures, in two folders."""
    folder = tmp_path_factory.mktemp("pictures")
    for name in ("first", "second"):
        list(write_pictures(folder / name, "R", SHARD * SHARDS // 2, seed=len(name), workers=1))
    return folder


@pytest.fixture
def embed(pictures: Path, run_command: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch) -> Embed:
    """Step 02 on the pictures in small shards, with the vectors in a folder of its own.

    No loading workers: forked from a process that has been connected to several clusters, they may end at once.
    """
    monkeypatch.setattr("image_copies.pipeline.steps.embed.EmbeddingSettings", partial(EmbeddingSettings, shard=SHARD))

    def run(folder: Path, *more: object) -> subprocess.CompletedProcess[str]:
        folder.mkdir(exist_ok=True)
        return run_command(folder, "02_embed", "--images", pictures, "--workers", 0, "--output", folder / "v.h5", *more)

    return run


def finished_shards(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".v-shards-*/*.h5"))


def bind(source: Path, target: Path) -> str:
    return f"mount --bind {shlex.quote(str(source))} {shlex.quote(str(target))}"


@pytest.mark.quick
def test_a_node_with_other_code_is_refused(cluster: Cluster, embed: Embed, tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(TOP / package, tmp_path / "other" / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "other/data/decode.py").open("a") as file:
        file.write("# another version\n")
    change = " && ".join(bind(tmp_path / "other" / package, TOP / package) for package in PACKAGES)
    with cluster.node(change):
        done = embed(tmp_path / "together", "--ray", cluster.address)
    assert done.returncode == 2
    assert " has another version of the code: " in done.stderr and f"this command has {describe_code()}. Install" in done.stderr
    assert describe_code() not in done.stderr.partition("this command")[0]
    assert finished_shards(tmp_path / "together") == []


def test_a_full_shared_disk_ends_the_run_and_it_goes_on(cluster: Cluster, embed: Embed, tmp_path: Path) -> None:
    assert embed(tmp_path / "alone").returncode == 0
    with small_disk(tmp_path / "together") as disk, cluster.node():
        size = len((tmp_path / "alone/v.h5").read_bytes()) // SHARDS
        resize(disk, 3 * size + 4096)
        done = embed(disk, "--ray", cluster.address)
        assert done.returncode == 2, done.stderr
        assert "the disk is full" in done.stderr and "make room and run the same command again" in done.stderr
        shards = finished_shards(disk)
        assert 0 < len(shards) <= SHARDS
        resize(disk, None)
        done = embed(disk, "--ray", cluster.address)
        assert done.returncode == 0, done.stderr
        assert (disk / "v.h5").read_bytes() == (tmp_path / "alone/v.h5").read_bytes()
        assert [path.name for path in disk.iterdir()] == ["v.h5"]
