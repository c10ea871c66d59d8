"""The engine: shards are handed to actors on a Ray cluster; lost ones are worked on again, slow ones a second time.

The driver keeps the book: which shards are left, which worker has which, and which results are due. A result is passed on once,
in the order of the shards. Losing a worker or a node costs the shards that it had.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tqdm import tqdm

from image_copies.data.errors import UserError
from image_copies.data.remote import as_path
from image_copies.data.shards import ShardWork
from image_copies.pipeline.cluster.connection import Connection
from image_copies.pipeline.cluster.identity import describe_code, describe_packages, digest_inputs

MAX_LOSSES = 5  # workers that one shard may take down before it is blamed
MAX_FAILED_STARTS = 20  # workers that may fail to start, one after the other, before the cluster is blamed
MAX_AHEAD = 256  # shards worked on or finished beyond the first unfinished one; bounds the results that wait in memory
SLOW_FACTOR, SLOW_SECONDS = 3.0, 10.0  # a shard is given to an idle worker too once it takes longer than both
LOOK_SECONDS = 0.5  # how often the driver looks at the progress, and for lost and slow workers
SHORT_SECONDS = 5.0  # of a work whose line is not worth printing
WAIT_SECONDS = 30.0  # without any worker, before the user is informed


@dataclass
class _Worker:
    """An actor and what it is doing: "start", "open", "work" or "idle", with the reference of the call in progress.

    One machine may be several nodes. `number` is the shard that it has, −1 for none; `work` that of the work that it opened last;
    `asked` the reference of the call that asks for its progress; `upcoming` the shard that it loads ahead, which it gets next
    unless nothing else is left for another.
    """

    actor: Any
    doing: str
    call: Any
    node: str = "that has just started"
    node_id: str = ""
    number: int = -1
    began: float = 0.0
    done: int = 0
    work: int = 0
    asked: Any = None
    upcoming: int = -1


@dataclass
class _Book:
    """What is left and what is done of one work, whose number of shards may not be known beforehand.

    `waiting` are shards that have to be worked on (again), `given` those that are not finished; `finished` results wait until
    they are `due`. `losses` counts lost workers by shard; `tolerated` are inputs that are absent everywhere.
    """

    shards: Iterator[Any]
    count: int | None = None
    waiting: deque[int] = field(default_factory=deque)
    given: dict[int, Any] = field(default_factory=dict)
    finished: dict[int, Any] = field(default_factory=dict)
    due: int = 0
    taken: int = 0
    exhausted: bool = False
    losses: dict[int, int] = field(default_factory=dict)
    tolerated: dict[int, frozenset[str]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def next(self, upcoming: int = -1, others: Collection[int] = ()) -> int | None:
        """Return the number of a shard to work on, `upcoming` first, those of `others` last; None if there is none now."""
        number = upcoming if upcoming in self.waiting else self.foresee(others)
        if number is None and self.waiting:
            number = self.waiting[0]
        if number is not None:
            self.waiting.remove(number)
        return number

    def foresee(self, others: Collection[int] = ()) -> int | None:
        """Return the number of a waiting shard that is none of the `others`; None if there is none now."""
        for number in self.waiting:
            if number not in others:
                return number
        if self.exhausted or self.taken - self.due >= MAX_AHEAD:
            return None
        shard = next(self.shards, self)
        if shard is self:
            self.exhausted = True
            return None
        self.given[self.taken] = shard
        self.waiting.append(self.taken)
        self.taken += 1
        return self.taken - 1

    @property
    def unfinished(self) -> int:
        """How many shards are left, at least; as many as can be handed out where their number is not known."""
        further = 0 if self.exhausted else MAX_AHEAD if self.count is None else self.count - self.taken
        return len(self.given) + further

    @property
    def complete(self) -> bool:
        """Whether every shard is finished."""
        return self.exhausted and not self.given


class RayEngine:
    """A `data.shards.Engine` on a Ray cluster, connected when the first shard is worked on.

    Workers are kept between works, so that a network that several works use is loaded once by each. A worker with a network takes
    `gpu_share` of a GPU; 0 for workers on CPUs only. `say` is called with each line about what has been done.
    """

    def __init__(self, connection: Connection, gpu_share: float = 1.0, say: Callable[[str], None] = print) -> None:
        self._connection, self._gpu_share, self._say = connection, gpu_share, say
        self._workers: list[_Worker] = []
        self._on_gpu = False
        self._failed_starts = 0
        self._works = 0

    def run(self, work: ShardWork[Any, Any, Any], shards: Iterable[Any], total: int | None, done: int) -> Iterator[Any]:
        """See `data.shards.Engine`.

        Raises:
            UserError: when the cluster cannot be reached, its nodes do not fit, or the work fails for a reason that the user can
                fix. What is finished stays.
        """
        book = _Book(iter(shards), len(shards) if isinstance(shards, Sized) else None)
        if book.foresee() is None:
            return
        self._connection.connect()
        self._prepare(work)
        began, before = time.monotonic(), done
        with tqdm(total=total, initial=done, desc=work.name, unit=work.unit, leave=False) as bar:
            try:
                while not book.complete:
                    self._hire(book)
                    for worker in self._await_calls():
                        if worker in self._workers:  # not dismissed meanwhile
                            done += self._settle(worker, work, book)
                    self._hand_out(work, book)
                    self._show(bar, done)
                    while book.due in book.finished:
                        yield book.finished.pop(book.due)
                        book.due += 1
                while book.due in book.finished:
                    yield book.finished.pop(book.due)
                    book.due += 1
            except BaseException:
                self._dismiss_all()
                raise
        self._report(work, book, done - before, time.monotonic() - began)

    def close(self) -> None:
        """End all workers and leave the cluster."""
        self._dismiss_all()
        self._connection.close()

    def _prepare(self, work: ShardWork[Any, Any, Any]) -> None:
        """Make all workers open this work; other kinds of workers than it needs are ended, as they hold cores."""
        on_gpu = work.uses_gpu and self._gpu_share > 0 and self._connection.total("GPU") > 0
        if on_gpu != self._on_gpu:
            self._dismiss_all()
        self._on_gpu = on_gpu
        self._works += 1
        self._key = work.opened_as or f"work {self._works}"
        self._opener, self._function = self._connection.ray.put(work.open), self._connection.ray.put(work.work)
        self._opening = list(work.inputs), work.folder
        self._expected = digest_inputs(self._opening[0])
        for worker in self._workers:
            worker.upcoming = -1
            if worker.doing == "idle":
                self._open(worker)
        self._failed_starts, self._last_seen = 0, time.monotonic()

    def _hire(self, book: _Book) -> None:
        """Start workers: as many as the cluster has room for, and one more where a node may join."""
        share = self._gpu_share if self._on_gpu else 1.0
        cores, gpus = self._connection.total("CPU"), self._connection.total("GPU")
        decoders = max(1, min(16, int(cores / gpus * share) - 1)) if self._on_gpu else 0
        room = int(gpus / share) if self._on_gpu else int(cores)
        while len(self._workers) < min(room + 1, book.unfinished):
            actor = self._connection.start_worker(1 + decoders, share if self._on_gpu else 0, decoders)
            self._workers.append(_Worker(actor, "start", actor.introduce.remote()))

    def _await_calls(self) -> list[_Worker]:
        """Wait a moment for calls and return the workers whose calls have ended."""
        calls = {worker.call: worker for worker in self._workers if worker.call is not None}
        ready, _ = self._connection.ray.wait(list(calls), num_returns=len(calls), timeout=0) if calls else ([], [])
        if not ready and calls:
            ready, _ = self._connection.ray.wait(list(calls), num_returns=1, timeout=LOOK_SECONDS)
        return [calls[call] for call in ready]

    def _settle(self, worker: _Worker, work: ShardWork[Any, Any, Any], book: _Book) -> int:
        """Take what a worker's call returned and decide what it does next; return the number of items that it finished."""
        doing, number, call = worker.doing, worker.number, worker.call
        worker.doing, worker.number, worker.call, worker.done = "idle", -1, None, 0
        try:
            answer = self._connection.ray.get(call)
        except self._connection.ray.exceptions.RayError as error:
            self._lose(worker, doing, number, book, error)
            return 0
        if doing == "start":
            self._check_introduction(worker, answer)
            self._open(worker)
            return 0
        if worker.work != self._works:  # it has opened, or failed to open, what the work before needed
            self._open(worker)
            return 0
        kind, value = answer
        if kind == "error":
            raise UserError(f"node {worker.node}: {value}" if doing == "work" else f"node {worker.node} {value}")
        if kind == "failed":
            raise RuntimeError(f"a worker on node {worker.node} failed:\n{value}")
        if doing == "open":
            self._check_inputs(worker, value)
            self._failed_starts = 0
            return 0
        if kind == "absent":
            self._check_absent(worker, value)
            book.tolerated[number] = book.tolerated.get(number, frozenset()) | frozenset(value)
            book.waiting.appendleft(number)
            return 0
        shard = book.given.pop(number)
        book.finished[number] = value
        book.seconds.append(time.monotonic() - worker.began)
        self._dismiss([other for other in self._workers if other.number == number])  # slower ones must write nothing any more
        return work.size(shard)

    def _lose(self, worker: _Worker, doing: str, number: int, book: _Book, error: Exception) -> None:
        """Give the shard of a worker that was lost to others.

        Raises:
            UserError: when workers are lost again and again.
        """
        self._dismiss([worker])
        if doing != "work":
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise UserError(
                    f"{self._failed_starts} workers ended before they could begin, the last on {worker.node}: "
                    f"{_first_line(error)} Look at Ray's logs there."
                )
            return
        if number not in book.given:
            return
        book.losses[number] = book.losses.get(number, 0) + 1
        if book.losses[number] >= MAX_LOSSES:
            raise UserError(
                f"{MAX_LOSSES} workers were lost at the same shard ({number}), the last on node {worker.node}: "
                f"{_first_line(error)} Usually memory is lacking there: use smaller batches, or nodes with more of it. What is "
                "finished stays."
            )
        if not any(other.number == number for other in self._workers):
            book.waiting.appendleft(number)

    def _hand_out(self, work: ShardWork[Any, Any, Any], book: _Book) -> None:
        """Give every idle worker a shard, slow ones a second time where no other is left."""
        for worker in [worker for worker in self._workers if worker.doing == "idle"]:
            others = {other.upcoming for other in self._workers if other is not worker}
            number = book.next(worker.upcoming, others)
            if number is None:
                number = self._find_slow(book)
            if number is None:
                return
            worker.doing, worker.number, worker.began, worker.done = "work", number, time.monotonic(), 0
            upcoming = book.foresee(others) if work.looks_ahead else None
            worker.upcoming = -1 if upcoming is None else upcoming
            given, tolerated = book.given, book.tolerated.get(number, frozenset())
            worker.call = worker.actor.work.remote(self._function, given[number], tolerated, given.get(worker.upcoming))

    def _find_slow(self, book: _Book) -> int | None:
        """Return the shard that takes longest, if that is far longer than others and only one worker has it."""
        if not book.seconds or not book.exhausted:
            return None
        held = [worker.number for worker in self._workers if worker.doing == "work"]
        limit = max(SLOW_FACTOR * median(book.seconds), SLOW_SECONDS)
        slow = [
            worker
            for worker in self._workers
            if worker.doing == "work" and held.count(worker.number) == 1 and time.monotonic() - worker.began > limit
        ]
        return min(slow, key=lambda worker: worker.began).number if slow else None

    def _show(self, bar: "tqdm[Any]", done: int) -> None:
        """Show how far all workers together are."""
        ray, busy = self._connection.ray, [worker for worker in self._workers if worker.doing == "work"]
        if busy:
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > WAIT_SECONDS and all(worker.doing == "start" for worker in self._workers):
            self._last_seen = time.monotonic()
            lacking = "GPU" if self._on_gpu else "core"
            tqdm.write(f"  waiting for a free {lacking} of the cluster: others use them, or nodes are gone", file=sys.stderr)
        if bar.disable or not bar.fp.isatty():
            return
        for worker in busy:
            if worker.asked is None:
                worker.asked = worker.actor.progress.remote()
            elif ray.wait([worker.asked], timeout=0)[0]:
                with suppress(ray.exceptions.RayError):  # its other call will tell
                    worker.done = ray.get(worker.asked)
                worker.asked = None
        best: dict[int, int] = {}
        for worker in busy:
            best[worker.number] = max(best.get(worker.number, 0), worker.done)
        bar.n = done + sum(best.values())
        bar.set_postfix_str(f"{len(busy)} workers on {len({worker.node_id for worker in busy})} nodes", refresh=True)

    def _report(self, work: ShardWork[Any, Any, Any], book: _Book, items: int, seconds: float) -> None:
        """Say one line about the whole work, unless it was short and left nothing behind."""
        if work.folder is None and seconds < SHORT_SECONDS:
            return
        hired = [worker for worker in self._workers if worker.doing != "start"]
        nodes = {worker.node_id for worker in hired}
        lost = sum(book.losses.values())
        self._say(
            f"  {work.name}: {items:,} {work.unit}s in {book.taken} shards by {len(hired)} workers on {len(nodes)} nodes, "
            f"{items / max(seconds, 1e-9):,.0f} a second" + (f"; {lost} lost workers replaced" if lost else "")
        )

    def _open(self, worker: _Worker) -> None:
        worker.doing, worker.work, worker.call = (
            "open",
            self._works,
            worker.actor.open.remote(self._key, self._opener, *self._opening),
        )

    def _check_introduction(self, worker: _Worker, about: dict[str, Any]) -> None:
        """Refuse a node with other code or packages, with a message that names both."""
        worker.node, worker.node_id = about["node"], about["id"]
        if about["code"] != describe_code():
            raise UserError(
                f"node {worker.node} has another version of the code: {about['code']}; this command has {describe_code()}. "
                "Install the same version on all nodes."
            )
        ours = describe_packages()
        for name in sorted(ours | about["packages"]):
            here, there = ours.get(name, "none"), about["packages"].get(name, "none")
            if here != there:
                raise UserError(
                    f"node {worker.node} has {name} {there}; this command has {name} {here}. Install the same versions on all "
                    "nodes (requirements.txt): results would depend on the node."
                )

    def _check_inputs(self, worker: _Worker, digests: dict[str, str]) -> None:
        """Refuse a node with other weights, with a message that names both."""
        for path, digest in digests.items():
            if digest != self._expected[path]:
                raise UserError(
                    f"node {worker.node} has other weights in {path} (SHA-256 {digest}…) than this machine "
                    f"({self._expected[path]}…). Share the run folder between the nodes, or copy the file."
                )

    def _check_absent(self, worker: _Worker, paths: list[str]) -> None:
        """Refuse a node that lacks inputs which this machine has."""
        here = [path for path in paths if as_path(path).exists()]
        if here:
            raise UserError(
                f"node {worker.node} does not see {len(here)} of the images, the first is {here[0]}, which this machine sees. "
                "Share the images between the nodes, under the same paths. What is finished stays."
            )

    def _dismiss(self, workers: list[_Worker]) -> None:
        for worker in workers:
            self._workers.remove(worker)
        self._connection.stop_workers([worker.actor for worker in workers])

    def _dismiss_all(self) -> None:
        self._dismiss(list(self._workers))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
