"""The options of commands that can work on a cluster."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from image_copies.data.errors import UserError
from image_copies.data.process import process_count
from image_copies.data.shards import use_engine


def add_ray_options(parser: argparse._ActionsContainer) -> None:
    """Add --ray and --ray-gpu to a command."""
    parser.add_argument(
        "--ray",
        metavar="WHERE",
        help="work on a Ray cluster: local (started on this machine for the command), auto (the one running here, or "
        "RAY_ADDRESS) or HOST:PORT; without it in one process, with the same results",
    )
    parser.add_argument(
        "--ray-gpu",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="share of a GPU for each worker with a network (1); 0 for none",
    )


@contextmanager
def use_ray(where: str | None, gpu_share: float = 1.0, say: Callable[[str], None] = print) -> Iterator[None]:
    """Work on shards on a cluster inside the `with` block; it is reached, or started, when there is work.

    `where` and `gpu_share` are those of the options --ray, without which this process works, and --ray-gpu.

    Raises:
        UserError: when several processes were started by torchrun, `gpu_share` is out of range, Ray is not installed, or the
            cluster cannot be used.
    """
    if process_count() > 1:
        raise UserError(
            f"{process_count()} processes were started by torchrun, which is for 01_train only: start this command once. It "
            "works on several processes or machines with --ray local, auto or HOST:PORT."
        )
    if where is None:
        yield
        return
    if not 0 <= gpu_share <= 1:
        raise UserError(f"--ray-gpu {gpu_share}: give the share of a GPU that a worker takes, from 0 (none) to 1.")
    # imported here: without the option nothing of this is needed
    from image_copies.pipeline.cluster.connection import Connection, import_ray
    from image_copies.pipeline.cluster.engine import RayEngine

    import_ray()
    engine = RayEngine(Connection(where), gpu_share, say)
    try:
        with use_engine(engine):
            yield
    finally:
        engine.close()
