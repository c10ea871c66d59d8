"""What the Ray engine costs: its start, and the rate of step 02 with two workers on two nodes against one process with two.

Both sides embed the same images into byte-identical files, in turns, so that other load on the machine falls on both.
"""

import argparse
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from image_copies.data.images import ImageSet, find_images
from image_copies.data.shards import use_engine
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.cluster.connection import Connection
from image_copies.pipeline.cluster.engine import RayEngine
from image_copies.pipeline.steps.embed import embed_to_file

STORE_BYTES = 2**28


def time_embedding(images: ImageSet, settings: EmbeddingSettings, output: Path) -> float:
    began = time.perf_counter()
    embed_to_file(SHIPPED, images, settings, output)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="folder of images")
    parser.add_argument("--count", type=int, default=20_000, help="images to embed; default 20,000")
    parser.add_argument("--shard", type=int, default=1000, help="images in a shard; default 1,000")
    parser.add_argument("--rounds", type=int, default=2, help="turns of both sides; default 2")
    options = parser.parse_args()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    from ray.cluster_utils import Cluster

    found = find_images(options.images, naming="path")
    images = ImageSet(found.ids[: options.count], found.paths[: options.count])
    began = time.perf_counter()
    local = Connection("local")
    local.connect()
    start = time.perf_counter() - began
    local.close()

    head = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    engine = RayEngine(Connection(cluster.address))
    alone, together = [], []
    with TemporaryDirectory() as scratch:
        one, two = Path(scratch) / "alone.h5", Path(scratch) / "together.h5"
        few = ImageSet(images.ids[: 2 * 64], images.paths[: 2 * 64])
        began = time.perf_counter()
        with use_engine(engine):
            embed_to_file(SHIPPED, few, EmbeddingSettings(shard=64), two)  # the workers start and load the network
        ready = time.perf_counter() - began
        for _ in range(options.rounds):
            alone.append(time_embedding(images, EmbeddingSettings(shard=options.shard, workers=2), one))
            with use_engine(engine):
                together.append(time_embedding(images, EmbeddingSettings(shard=options.shard, workers=2), two))
        same = one.read_bytes() == two.read_bytes()
    engine.close()
    cluster.shutdown()

    table = Table("what", "measured")
    table.add_row("start of Ray on this machine (--ray local)", f"{start:.1f} s")
    table.add_row("until two workers have loaded the network and embedded 64 images each", f"{ready:.1f} s")
    table.add_row("one process, two loading workers", f"{len(images) / (sum(alone) / len(alone)):.1f} images/s")
    table.add_row("Ray, two workers on two nodes", f"{len(images) / (sum(together) / len(together)):.1f} images/s")
    table.add_row("the latter as a share of the former", f"{sum(alone) / sum(together):.2f} (turns: {describe(alone, together)})")
    table.add_row("the same bytes", "yes" if same else "NO")
    table.add_row("images, images in a shard", f"{len(images):,}, {options.shard:,}")
    table.add_row("load of the machine meanwhile (1, 5, 15 minutes)", " ".join(f"{load:.1f}" for load in os.getloadavg()))
    Console(width=130).print(table)


def describe(alone: list[float], together: list[float]) -> str:
    return " ".join(f"{one / two:.2f}" for one, two in zip(alone, together, strict=True))


if __name__ == "__main__":
    main()
