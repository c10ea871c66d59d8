"""Batches of training images: every image once, several edited copies of each image, or several images of each class.

Each is a stream of keys (epoch, row, repetition) over several epochs, which keeps workers busy between epochs and is the same for
any number of them. pytorch-metric-learning's MPerClassSampler draws from NumPy's global generator, so it is not used.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError

from .dataset import Key
from .randomness import generator_for

Groups = Callable[[int], NDArray[np.int64]]  # epoch → [groups, keys of each, 2]: rows and repetitions


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


def _group_batches(
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

    def groups_of(epoch: int) -> NDArray[np.int64]:
        return _repeat(
            generator_for(stream.seed, epoch, "order of the images").permutation(np.array(rows)), 1
        )

    return _group_batches(
        groups_of=groups_of,
        groups=len(rows),
        per_batch=batch_size,
        stream=stream,
        unit="images",
        least=2,
        whole=whole,
    )


def repeated_batches(rows: Sequence[int], batch_size: int, repetitions: int, stream: Stream) -> Batches:
    """Build batches of ⌈batch_size / repetitions⌉ images in several edited copies each (MultiGrain, section 3.3: 512 and 3).

    The last image of a batch has as many copies as fill it.

    Raises:
        UserError: fewer than two repetitions, or a batch has fewer images than there are processes.
    """
    if repetitions < 2:
        raise UserError(
            f"{repetitions} repetition(s) of an image make no pair of copies; at least two are needed."
        )

    def groups_of(epoch: int) -> NDArray[np.int64]:
        order = generator_for(stream.seed, epoch, "order of the repeated images").permutation(np.array(rows))
        return _repeat(order, repetitions)

    images = -(-batch_size // repetitions)
    return _group_batches(groups_of, len(rows), images, stream, surplus=images * repetitions - batch_size)


def pk_batches(
    rows: Sequence[int], labels: Sequence[int], classes_per_batch: int, images_per_class: int, stream: Stream
) -> Batches:
    """Build PK batches: P classes with K images each (IDEAL, section 5.1: 8 and 4); `labels` are the classes of `rows`.

    Every class is drawn at least ⌈its images / K⌉ times per epoch, so that all its images are seen. The classes of a batch are
    distinct: when only large classes are left, others are drawn again next to them, with new edits, so that no batch lacks
    negatives. If there are fewer than P classes, every batch contains all of them, equally often. A class with fewer than K
    images repeats some with new edits, so one image is enough.

    Raises:
        UserError: K is below 2, or a batch has fewer classes than there are processes.
    """
    if images_per_class < 2:
        raise UserError(
            f"{images_per_class} image(s) per class in a batch make no positive pair; at least two are needed."
        )
    by_class: dict[int, list[int]] = {}
    for row, label in zip(rows, labels, strict=True):
        by_class.setdefault(int(label), []).append(int(row))
    times = {label: -(-len(members) // images_per_class) for label, members in by_class.items()}
    different = max(1, min(classes_per_batch, len(by_class)))
    per_batch = classes_per_batch // different * different

    def groups_of(epoch: int) -> NDArray[np.int64]:
        rng = generator_for(stream.seed, epoch, "order of the classes")
        order = {
            int(label): rng.permutation(by_class[int(label)]).tolist()
            for label in rng.permutation(sorted(by_class))
        }
        taken = dict.fromkeys(order, 0)
        groups = []
        for label in _arrange_rounds(list(order), times, different):
            groups.append(_group(order[label], taken[label], images_per_class))
            taken[label] += 1
        return np.array(groups, np.int64)

    return _group_batches(
        groups_of, len(_arrange_rounds(list(by_class), times, different)), per_batch, stream
    )


def _arrange_rounds(order: list[int], times: dict[int, int], different: int) -> list[int]:
    """Return the classes in rounds; class c takes part in the first times[c] rounds.

    A round whose length is not a multiple of `different` is filled up with classes that are not in its incomplete last part.
    """
    result: list[int] = []
    for number in range(max(times.values(), default=0)):
        own = [label for label in order if times[label] > number]
        rest = len(own) % different
        last = set(own[len(own) - rest :])
        result += own + [label for label in order if label not in last][: -len(own) % different]
    return result


def _group(images: list[int], number: int, size: int) -> list[tuple[int, int]]:
    """Return group `number` of `size` keys of a class; images are reused cyclically, each time as another repetition."""
    places = range(number * size, (number + 1) * size)
    return [(images[place % len(images)], place // len(images)) for place in places]


def _repeat(rows: NDArray[np.int64], repetitions: int) -> NDArray[np.int64]:
    """Return a group of each of `rows` [n] with its repetitions: [n, repetitions, 2]."""
    return np.stack(np.broadcast_arrays(rows[:, None], np.arange(repetitions)), axis=2)
