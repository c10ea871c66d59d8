"""--ray: shards as tasks on a Ray cluster, which repeats those of lost workers and nodes.

The result of a shard depends on the shard alone, so that a task may run anywhere and again. A worker checks first
that it would make the same bytes as this machine: by the versions of code and packages, and by digests of the inputs.
"""

import argparse
import hashlib
import importlib
import logging
import os
import platform
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from image_copies.data import commands, files, process, remote, threads
from image_copies.data.errors import UserError
from image_copies.data.shards import Place, ShardWork, use_engine

TOP = Path(__file__).parents[1]
PACKAGES = ("augmentations", "data", "matching", "models", "pipeline", "studies", "submissions")
RETRIES = 4  # of a shard whose worker or node was lost
MAX_AHEAD = 256  # shards given to the cluster beyond the first unfinished one; bounds the results that wait
MAX_DECODERS = 16  # processes of a worker that decode images for a network on a GPU
ANSWER_SECONDS = 5.0  # for an address to accept a connection: Ray would try for minutes


def add_ray_options(parser: argparse._ActionsContainer) -> None:
    """Add --ray and --ray-gpu to a command."""
    parser.add_argument(
        "--ray",
        metavar="WHERE",
        help="work on a Ray cluster: local (started on this machine for the command), auto (the one running here, or "
        "RAY_ADDRESS) or HOST:PORT; without it in one process, with the same results",
    )
    share = "a worker's share of a GPU (1); 0 for none"
    parser.add_argument("--ray-gpu", type=float, default=1.0, metavar="SHARE", help=share)


@contextmanager
def use_ray(
    where: str | None, gpu_share: float = 1.0, say: Callable[[str], None] = print
) -> Iterator[None]:
    """Work on shards on a cluster inside the `with` block; it is reached, or started, when there is work.

    `where` is that of --ray, without which this process works, `gpu_share` of --ray-gpu; `say` prints a line about each work.

    Raises:
        UserError: There are several processes of torchrun, `gpu_share` is out of range, or Ray or the cluster cannot be used.
    """
    if process.process_count() > 1:
        raise UserError(
            f"{process.process_count()} processes were started by torchrun, which is for 01_train only: start this command once. "
            "It works on several processes or machines with --ray local, auto or HOST:PORT."
        )
    if where is None:
        yield
        return
    if not 0 <= gpu_share <= 1:
        raise UserError(f"--ray-gpu {gpu_share}: give a worker's share of a GPU, from 0 (none) to 1.")
    # the first error is reported
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        install = commands.name_install("cluster")
        raise UserError(f"Ray is not installed. Install it, on all nodes, with: {install}") from error
    try:
        with use_engine(RayEngine(ray, where, gpu_share, say)):
            yield
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class Order:
    """A work, the name of what it opens, what its results depend on, and the processes that decode for a network on a GPU."""

    work: ShardWork[Any, Any, Any]
    key: str
    described: dict[str, str]
    decoders: int


@dataclass(frozen=True)
class RayEngine:
    """A `data.shards.Engine`: every shard is a task. A worker keeps what it has opened for the shards that follow."""

    ray: Any  # the module
    address: str  # of the cluster, as --ray takes it
    gpu_share: float  # of a GPU for each worker with a network
    say: Callable[[str], None]  # is called with a line about each finished work

    def run(
        self, work: ShardWork[Any, Any, Any], shards: Iterable[Any], total: int | None, done: int
    ) -> Iterator[Any]:
        """See `data.shards.Engine`.

        Raises:
            UserError: The cluster cannot be used, a node does not fit, or the work fails; what is finished stays.
        """
        from tqdm import tqdm  # as in data.shards

        make_task = cache(partial(self._prepare, work))  # called when there is a shard
        tasks = ((shard, make_task()(shard)) for shard in shards)
        sizes = list[int]()
        with tqdm(total=total, initial=done, desc=work.name, unit=work.unit, leave=False) as bar:
            for shard, task in threads.draw_ahead(tasks, MAX_AHEAD):
                yield self._await(make_task(), shard, task)
                sizes.append(work.size(shard))
                bar.update(sizes[-1])
        if sizes:
            self.say(f"  {work.name}: {sum(sizes):,} {work.unit}s in {len(sizes)} shards on Ray")

    def _prepare(self, work: ShardWork[Any, Any, Any]) -> Callable[..., Any]:
        """Reach the cluster and return what makes a task of a shard."""
        _connect(self.ray, self.address)
        have = self.ray.cluster_resources()
        cores, gpus = have.get("CPU", 1.0), have.get("GPU", 0.0)
        share = self.gpu_share if work.uses_gpu and gpus else 0.0
        decoders = max(1, min(MAX_DECODERS, int(cores / gpus * share) - 1)) if share else 0
        order = Order(work, work.opened_as or secrets.token_hex(), describe_needed(work), decoders)
        reference = self.ray.put(order)
        # without `max_calls`, a worker with a GPU would end after each shard
        task = self.ray.remote(num_cpus=1 + decoders, num_gpus=share, max_retries=RETRIES, max_calls=0)(
            work_on_shard
        )
        return partial(task.remote, [reference])  # in a list, or Ray would load it for every shard

    def _await(self, make_task: Callable[..., Any], shard: Any, task: Any) -> Any:
        """Return the result of a shard's task; inputs that this machine does not see either are absent, and no error."""
        try:
            return self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)  # what the work raised
            if cause is None or isinstance(cause, self.ray.exceptions.RaySystemError):
                raise UserError(
                    f"Ray gave up on a shard after {RETRIES + 1} attempts ({error}). Usually memory is lacking on a node: use "
                    "smaller batches, or nodes with more of it; or a node has other code. What is finished stays."
                ) from error
            if not isinstance(cause, AbsentError):
                raise cause from error
            node, paths = cause.args
        if here := [path for path in paths if path.exists()]:
            raise UserError(
                f"node {node} does not see {len(here)} of the images, the first is {here[0]}, which this machine sees. Share the "
                "images between the nodes, under the same paths. What is finished stays."
            )
        return self._await(make_task, shard, make_task(shard, paths))


class AbsentError(Exception):
    """Inputs of a shard that a node cannot find: its name, and their paths."""


_opened: dict[str, Any] = {}  # of a worker: what the latest work opens, by its key


def work_on_shard(references: Sequence[Any], shard: Any, tolerated: Sequence[Path] = ()) -> Any:
    """Work on a shard, in a worker, by the order that `references` holds; inputs that no machine has are tolerated.

    Raises:
        AbsentError: when this node lacks other inputs.
        UserError: This node does not fit, or the work fails for a reason that the user can fix.
    """
    from image_copies.pipeline.run.step import search_on_gpu  # as in _describe_machine

    threadpool_limits(1)  # the last bits may depend on the number of threads
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    order = _load_order(references[0])
    if order.key not in _opened:
        _opened.clear()  # frees a network before the next one is loaded
        _opened[order.key] = order.work.open()

    def report_absent(paths: Sequence[Path]) -> None:
        if set(paths) - set(tolerated):
            raise AbsentError(platform.node(), paths)

    place = Place(lambda count: None, report_absent, order.decoders)
    with search_on_gpu() if os.environ.get("CUDA_VISIBLE_DEVICES") else nullcontext():
        return order.work.work(_opened[order.key], shard, place)


@lru_cache(1)
def _load_order(reference: Any) -> Order:
    """Load an order once, and check that this node makes the bytes of the machine of the command and sees its files."""
    order: Order = importlib.import_module("ray").get(reference)
    own = describe_needed(order.work)
    for name in sorted(own | order.described):
        here = own.get(name, "none")
        there = order.described.get(name, "none")
        if here != there:
            raise UserError(
                f"node {platform.node()} has {name}: {here}; this command has {name}: {there}. Results would depend on the node: "
                "install the same versions on all nodes (requirements.txt), and share files and folders under the same paths."
            )
    return order


def describe_needed(work: ShardWork[Any, Any, Any]) -> dict[str, str]:
    """Return what a work's results depend on: versions, a digest of the sources, those of inputs, the results' folder."""
    described = dict(_describe_machine())
    for path in work.inputs:
        described[str(path)] = files.digest_file(path)[:16] if path.is_file() else "none"
    if work.folder is not None and not remote.is_remote(work.folder):  # object stores have no empty folders
        described[f"the folder {work.folder}"] = "there" if work.folder.is_dir() else "none"
    return described


@cache
def _describe_machine() -> dict[str, str]:
    from image_copies.pipeline.run.step import versions  # here: --help must answer at once

    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((TOP / package).rglob("*.py")):
            digest.update(path.relative_to(TOP).as_posix().encode() + path.read_bytes())
    return versions() | {"machine": platform.machine(), "code": digest.hexdigest()[:12]}


def _connect(ray: Any, address: str) -> None:
    """Reach the cluster at "auto" or host:port, or start one for "local", once; UserError when it cannot be used."""
    if ray.is_initialized():
        return
    if address == "local":
        # or Ray writes one to ~/.ray, where others may read it
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex())
    before = signal.getsignal(signal.SIGTERM)
    try:
        host, _, port = address.rpartition(":")
        if port.isdecimal():
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # of every kind, where its processes do not start
        raise UserError(
            f"--ray {address}: the cluster cannot be used ({error}). See whether it runs with `ray status`; `ray start --head` "
            "starts one, --ray local one for this command. If it asks for a token, this command needs the same one: "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or ~/.ray/auth_token."
        ) from error
    finally:
        signal.signal(signal.SIGTERM, before)  # which Ray takes for itself
