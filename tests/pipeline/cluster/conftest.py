"""Ray clusters of several nodes on this machine, as small as possible."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from image_copies.data.procedural import write_pictures
from image_copies.pipeline.run import paths
from tests.pictures import encode, write_tar

STORE_BYTES = 80 * 2**20


@pytest.fixture(autouse=True)
def no_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The latest of the checkout's own runs would embed, where the descriptor that ships is expected."""
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")


@contextmanager
def start_nodes(*nodes: dict[str, int]) -> Iterator[Any]:
    """Start a `ray.cluster_utils.Cluster` inside the `with` block: the first of the nodes is its head; skip without Ray."""
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    from ray.cluster_utils import Cluster

    head, *others = ({"object_store_memory": STORE_BYTES} | node for node in nodes)
    cluster = Cluster(initialize_head=True, head_node_args=head | {"include_dashboard": False})
    for node in others:
        cluster.add_node(**node)
    try:
        yield cluster
    finally:
        cluster.shutdown()


@pytest.fixture(scope="session")
def nodes(object_store: Any) -> Iterator[Any]:
    """Two nodes with a core each, started once for all tests; they inherit the variables by which the store is found."""
    with start_nodes({"num_cpus": 1}, {"num_cpus": 1}) as cluster:
        yield cluster


@pytest.fixture
def three_nodes() -> Iterator[Any]:
    """A head without cores, and two nodes with one each."""
    with start_nodes({"num_cpus": 0}, {"num_cpus": 1}, {"num_cpus": 1}) as cluster:
        yield cluster


def shrunk(path: Path) -> bytes:
    with Image.open(path) as image:
        smaller = image.resize((image.width * 3 // 4, image.height * 3 // 4), Image.Resampling.LANCZOS)
    return encode(smaller, "JPEG", quality=90)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Six pictures in a folder, one damaged; copies of some in a tar with labels, and in a table."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    where = tmp_path / "sources"
    list(write_pictures(where / "folder", "R", 6, seed=1, workers=1))
    paths = sorted((where / "folder").iterdir())
    (where / "folder" / "bad.jpg").write_bytes(b"no picture")
    files = {"a.jpg": paths[0].read_bytes(), "a.json": b"{}", "b.jpg": shrunk(paths[1]), "b.json": b"{}"}
    write_tar(where / "shard.tar", files)
    cells = [{"bytes": shrunk(paths[2]), "path": "c.jpg"}, {"bytes": None, "path": "folder/R000003.jpg"}]
    parquet.write_table(pa.table({"image": cells, "n": [1, 2]}), where / "table.parquet")
    return where
