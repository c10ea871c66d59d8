"""Ray's calls as far as the engine uses them, in threads of this process; workers die when a test says so."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    """A lost worker, or any other trouble of Ray's."""


class Method:
    def __init__(self, actor: "Actor", name: str) -> None:
        self._actor, self._name = actor, name

    def remote(self, *arguments: Any) -> "Future[Any]":
        return self._actor.call(self._name, *arguments)


class Actor:
    """One worker; its calls run one after the other. `dies` is asked before each."""

    def __init__(self, worker: Any, dies: Callable[[str, tuple[Any, ...]], bool]) -> None:
        self._worker, self._dies, self._pool, self.alive = worker, dies, ThreadPoolExecutor(1), True

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)

    def call(self, name: str, *arguments: Any) -> "Future[Any]":
        def run() -> Any:
            if not self.alive or self._dies(name, arguments):
                self.alive = False
                raise RayError("the worker died")
            answer = getattr(self._worker, name)(*arguments)
            if not self.alive:
                raise RayError("the worker was killed")
            return answer

        if name == "progress":  # not in the queue of the others
            future: Future[Any] = Future()
            future.set_result(0)
            return future
        return self._pool.submit(run)


class FakeConnection:
    """What `pipeline.cluster.connection.Connection` offers.

    Args:
        resources: Of the whole cluster, by name.
        make_worker: Makes what an actor calls.
        dies: Whether a worker dies before a call of this name with these arguments.
    """

    def __init__(
        self,
        resources: dict[str, float],
        make_worker: Callable[[int], Any],
        dies: Callable[[str, tuple[Any, ...]], bool] = lambda name, arguments: False,
    ) -> None:
        self._resources, self._make_worker, self._dies = resources, make_worker, dies
        self.started: list[tuple[int, float, int]] = []
        self.actors: list[Actor] = []
        self.ray = SimpleNamespace(
            put=lambda value: value,
            get=lambda future: future.result(),
            wait=self._wait,
            exceptions=SimpleNamespace(RayError=RayError),
        )

    def connect(self) -> None:
        pass

    def close(self) -> None:
        pass

    def total(self, resource: str) -> float:
        return self._resources.get(resource, 0.0)

    def start_worker(self, cores: int, gpu_share: float, decoders: int) -> Actor:
        self.started.append((cores, gpu_share, decoders))
        self.actors.append(Actor(self._make_worker(decoders), self._dies))
        return self.actors[-1]

    def stop_workers(self, actors: Sequence[Actor]) -> None:
        for actor in actors:
            actor.alive = False

    def _wait(
        self, calls: "list[Future[Any]]", num_returns: int = 1, timeout: float | None = None
    ) -> "tuple[list[Future[Any]], list[Future[Any]]]":
        done, _ = wait(calls, timeout, FIRST_COMPLETED)
        return [call for call in calls if call in done], [call for call in calls if call not in done]
