"""Ray clusters of several nodes on this machine, as small as possible."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

STORE_BYTES = 80 * 2**20


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` of two nodes with a core each; skipped without Ray."""
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    yield cluster
    cluster.shutdown()
