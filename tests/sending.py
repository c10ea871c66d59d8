"""What another process gets, without another process."""

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from image_copies.data.shards import Place, ShardWork

Value = TypeVar("Value")


def send(value: Value) -> Value:
    """Return a value as another process gets it: pickled and unpickled."""
    sent: Value = pickle.loads(pickle.dumps(value))
    return sent


class SendingEngine:
    """An engine that works here, on what another process would get, and returns what would come back.

    Attributes:
        works: Names of the works that it was given, in order.
        shards: How many shards each had.
    """

    def __init__(self) -> None:
        self.works: list[str] = []
        self.shards: list[int] = []

    def run(self, work: ShardWork[Any, Any, Any], shards: Iterable[Any], total: int | None, done: int) -> Iterator[Any]:
        """Yield the result of every shard, in order."""
        self.works.append(work.name)
        self.shards.append(0)
        sent, place = send(work), Place(lambda count: None, lambda paths: None)
        state = sent.open()
        for shard in shards:
            self.shards[-1] += 1
            yield send(sent.work(state, send(shard), place))
