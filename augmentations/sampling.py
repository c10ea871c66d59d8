"""Batches of training images, every image once or by groups (the papers' rooms in studies/).

Each is a stream of keys (epoch, row, repetition) over several epochs, which keeps workers busy between epochs and is the same for
any number of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from image_copies.data.arrays import Int64s
from image_copies.data.errors import UserError

from .dataset import Key
from .randomness import generator_for

Groups = Callable[[int], Int64s]  # epoch → [groups, keys of each, 2]: rows and repetitions


@dataclass(frozen=True)
class Stream:
    """Which epochs batches are made for, and which part of each batch this process takes."""

    epochs: range
    seed: int
    rank: int = 0
    ranks: int = 1


@dataclass(frozen=True)
class Batches:
    """Batches of keys over several epochs, of which the first `done` are left out.

    Attributes:
        per_epoch: Batches of an epoch, the same for every process.
        epochs: The epochs.
        draw: Yields the batches of an epoch.
        done: How many are left out.
    """

    per_epoch: int
    epochs: range
    draw: Callable[[int], Iterable[list[Key]]]
    done: int = 0

    def __len__(self) -> int:
        return self.per_epoch * len(self.epochs) - self.done

    def __iter__(self) -> Iterator[list[Key]]:
        return islice(chain.from_iterable(map(self.draw, self.epochs)), self.done, None)


def group_batches(
    groups_of: Groups,
    groups: int,
    per_batch: int,
    stream: Stream,
    unit: str = "groups of images",
    least: int = 1,
    whole: bool = False,
    surplus: int = 0,
) -> Batches:
    """Build batches of whole groups of keys, of which the last of a full batch lacks its last `surplus` keys.

    Each process takes whole groups of every batch, as evenly as possible, so that together they see the same batches as a single
    process. The last, smaller batch of an epoch is dropped if it has too few groups for the processes, each of which needs
    `least`, or, with `whole`, unless it is the only one. `groups` are those of an epoch, `unit` what one is called.

    Raises:
        UserError: a batch has too few groups for the processes.
    """
    if min(per_batch, groups) < least * stream.ranks:
        raise UserError(
            f"a batch of {min(per_batch, groups)} {unit} (of {groups} in the stage) has fewer than {least} for each of "
            f"{stream.ranks} processes: raise batch_size, add images, or start fewer processes."
        )
    full, rest = divmod(groups, per_batch)
    count = full + (rest >= least * stream.ranks and not (whole and full))

    def draw(epoch: int) -> Iterator[list[Key]]:
        drawn = groups_of(epoch)
        for batch in range(count):
            own = np.array_split(drawn[batch * per_batch : (batch + 1) * per_batch], stream.ranks)[
                stream.rank
            ].reshape(-1, 2)
            if batch < full and stream.rank == stream.ranks - 1:
                own = own[: len(own) - surplus]
            yield [(epoch, row, repetition) for row, repetition in own.tolist()]

    return Batches(count, stream.epochs, draw)


def epoch_batches(rows: Sequence[int], batch_size: int, stream: Stream, whole: bool = False) -> Batches:
    """Build batches of different images, every image once in an epoch.

    With `whole`, an epoch's smaller last batch is dropped, for which torch.compile would compile again.

    Raises:
        UserError: a batch has fewer than two images for each process.
    """

    def groups_of(epoch: int) -> Int64s:
        return repeat_rows(
            generator_for(stream.seed, epoch, "order of the images").permutation(np.array(rows)), 1
        )

    return group_batches(
        groups_of=groups_of,
        groups=len(rows),
        per_batch=batch_size,
        stream=stream,
        unit="images",
        least=2,
        whole=whole,
    )


def repeat_rows(rows: Int64s, repetitions: int) -> Int64s:
    """Return a group of each of `rows` [n] with its repetitions: [n, repetitions, 2]."""
    return np.stack(np.broadcast_arrays(rows[:, None], np.arange(repetitions)), axis=2)
