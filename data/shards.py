"""Work in numbered shards: one after the other in this process, or on the engine in use, with the same results to the byte."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

State = TypeVar("State")
Shard = TypeVar("Shard")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Place:
    """Where a shard is worked on: this process, or a worker of an engine."""

    # called with the number of items done since the last call, for the progress shown
    advance: Callable[[int], None]
    # called with the inputs of a shard that this place cannot find, before its result is written. An engine raises here if
    # another machine has them: a node without the images must not make vectors of unreadable images
    report_absent: Callable[[Sequence[Path]], None]
    # processes that decode images ahead of the network; None for the number in the settings
    decoders: int | None = None


@dataclass(frozen=True)
class ShardWork(Generic[State, Shard, Result]):
    """What is done with every shard of something. Its functions must be picklable, and their results depend on the shard only."""

    name: str  # what is being done, such as "embedding reference", for the line of progress
    unit: str  # what is counted there, in the singular
    # returns what all shards need, such as a network; called once in every process
    open: Callable[[], State]
    # on one shard; files are written whole: it may be done again
    work: Callable[[State, Shard, Place], Result]
    size: Callable[[Shard], int]  # number of items in a shard
    inputs: tuple[Path, ...] = ()  # files that must be the same on every machine, such as checkpoints
    # existing, of the results, seen by every machine; None where results are returned only
    folder: Path | None = None
    # names what `open` returns, where further works open the same: a worker then keeps it
    opened_as: str = ""
    uses_gpu: bool = False  # whether a GPU speeds it up


def hold(state: State) -> State:
    """Return what all shards need as it is: partial(hold, state) is `open` of a work whose state is small enough to be sent."""
    return state


class Engine(Protocol):
    """Works on shards elsewhere."""

    def run(
        self, work: ShardWork[Any, Any, Any], shards: Iterable[Any], total: int | None, done: int
    ) -> Iterator[Any]:
        """Yield the result of every shard, in order; arguments as in `run_shards`."""


_handed_in: list[Engine] = []


@contextmanager
def use_engine(engine: Engine) -> Iterator[None]:
    """Work on shards with `engine` inside the `with` block."""
    _handed_in.append(engine)
    try:
        yield
    finally:
        _handed_in.remove(engine)


def uses_engine() -> bool:
    """Whether shards are worked on elsewhere: this process then divides what it would otherwise do in one piece."""
    return bool(_handed_in)


def run_shards(
    work: ShardWork[State, Shard, Result],
    shards: Iterable[Shard],
    total: int | None,
    done: int = 0,
    here: bool = False,
) -> Iterator[Result]:
    """Yield the result of every shard, in order, as they become available.

    Shards are taken one by one, as there is room to work on them. `total` counts the items in all shards for the progress, None
    where that is not known, `done` those of them that were done before and are not among `shards`. With `here` this process works
    in any case, because the work is too small to be sent elsewhere.

    Raises:
        UserError: when the work fails for a reason that the user can fix.
    """
    if _handed_in and not here:
        yield from _handed_in[-1].run(work, shards, total, done)
        return
    # imported here: it reads whether to show bars when it is imported (pipeline/run/cli.py)
    from tqdm import tqdm

    state: State | None = None
    with tqdm(total=total, initial=done, desc=work.name, unit=work.unit, leave=False, delay=1) as bar:
        place = Place(partial(_advance, bar), lambda paths: None)
        for shard in shards:
            state = work.open() if state is None else state
            yield work.work(state, shard, place)


def _advance(bar: Any, count: int) -> None:
    bar.update(count)
