"""A worker of the cluster: an actor that opens what a work needs once and then works on one shard after the other.

Ray sends this module to the nodes by value, and it imports nothing of the project before `introduce` has compared the versions: a
node with other code, or none, is refused with a message instead of failing somewhere. The driver's side is `engine.py`.
"""

import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Outcome = tuple[str, Any]  # "done" and the result; "error" and a message; "absent" and paths; "failed" and a traceback


class Worker:
    """The actor. Its methods return outcomes: exceptions of the project's own classes would need its code to be unpickled.

    `decoders` are processes that decode images ahead of the network; 0 to decode in this one.
    """

    def __init__(self, decoders: int) -> None:
        self._decoders = decoders
        self._key, self._state = "", None
        self._done = 0

    def introduce(self) -> dict[str, Any]:
        """Say which node and process this is, and which code and packages it has."""
        import ray

        about = {"node": platform.node(), "id": ray.get_runtime_context().get_node_id(), "process": os.getpid()}
        try:
            from image_copies.pipeline.cluster.identity import describe_code, describe_packages

            return about | {"code": describe_code(), "packages": describe_packages()}
        except ImportError as error:
            return about | {"code": f"no such package ({error})", "packages": {}}

    def open(self, key: str, opener: Callable[[], Any], inputs: list[Path], folder: Path | None) -> Outcome:
        """Open what a work needs, unless the last work needed the same by its key; inputs must be the same on every machine.

        The result is the digests of `inputs`.
        """
        from image_copies.data.remote import is_remote
        from image_copies.pipeline.cluster.identity import digest_inputs

        if folder is not None and not is_remote(folder) and not folder.is_dir():  # object stores have no empty folders
            return "error", f"does not see {folder}. The folder of the results must be shared by all nodes, under the same path."
        digests = digest_inputs(inputs)
        if lacking := [path for path, digest in digests.items() if not digest]:
            return "error", f"does not see {lacking[0]}, which this command reads. All nodes must share it, under the same path."

        def open_once() -> dict[str, str]:
            if self._key != key:
                self._key, self._state = "", None  # frees a network before the next one is loaded
                self._state = opener()
                self._key = key
            return digests

        return _report(open_once)

    def work(self, worker: Callable[[Any, Any, Any], Any], shard: Any, tolerated: frozenset[str], upcoming: Any) -> Outcome:
        """Work on a shard; inputs that no machine has are tolerated. `upcoming` probably comes next; None if unknown."""
        from image_copies.data.shards import Place

        def advance(count: int) -> None:
            self._done += count

        def report_absent(paths: Any) -> None:
            lacking = [str(path) for path in paths if str(path) not in tolerated]
            if lacking:
                raise _AbsentError(lacking)

        self._done = 0
        _use_one_thread()
        with _use_own_gpu():
            return _report(lambda: worker(self._state, shard, Place(advance, report_absent, self._decoders, upcoming)))

    def progress(self) -> int:
        """Return how many items of the present shard are done."""
        return self._done


class _AbsentError(Exception):
    """Inputs of a shard that this node cannot find; carries their paths."""


def _report(work: Callable[[], Any]) -> Outcome:
    """Call a function and return its result, or what it raised, as an outcome."""
    from image_copies.data.errors import UserError
    from image_copies.pipeline.run.cli import describe_outside_cause

    try:
        return "done", work()
    except _AbsentError as error:
        return "absent", error.args[0]
    except UserError as error:
        return "error", str(error)
    except Exception as error:
        message = describe_outside_cause(error)
        return ("failed", traceback.format_exc()) if message is None else ("error", message)


@contextmanager
def _use_own_gpu() -> Iterator[None]:
    """Search on the GPU that Ray has given to this worker, if any; networks find it themselves."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):
        yield
        return
    from image_copies.pipeline.steps.search_device import search_on_gpu

    with search_on_gpu():
        yield


def _use_one_thread() -> None:
    """Let libraries compute with one thread, as many as the worker has cores: the last bits may depend on it."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
