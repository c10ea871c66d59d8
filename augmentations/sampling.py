"""Batches in which images come in groups: several edited copies of each image, or several images of each class.

Both are a stream of keys (epoch, row, repetition) over several epochs, the same for any number of workers, as EpochBatches is.
pytorch-metric-learning's MPerClassSampler draws from NumPy's global generator, so it is not used.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from image_copies.augmentations.dataset import Key
from image_copies.augmentations.randomness import generator_for
from image_copies.data.errors import UserError

Groups = Callable[[int], list[list[Key]]]


class GroupBatches(Sampler[list[Key]]):
    """Batch sampler of whole groups of keys.

    Each process takes whole groups of every batch, as evenly as possible. The last, smaller batch of an epoch is dropped if it
    has fewer groups than there are processes.

    Args:
        groups_of: Returns the groups of an epoch, in order.
        groups: Number of groups in an epoch.
        per_batch: Groups per batch, over all processes.
        epochs: The epochs of the stream.
        rank: Rank of this process.
        ranks: Number of processes.

    Raises:
        UserError: a batch has fewer groups than there are processes.
    """

    def __init__(self, groups_of: Groups, groups: int, per_batch: int, epochs: range, rank: int = 0, ranks: int = 1) -> None:
        if min(per_batch, groups) < ranks:
            raise UserError(
                f"a batch of {min(per_batch, groups)} groups of images (of {groups} in the stage) has fewer than one for each of "
                f"{ranks} processes: raise batch_size, add images, or start fewer processes."
            )
        self.groups_of, self.groups, self.per_batch, self.epochs = groups_of, groups, per_batch, epochs
        self.rank, self.ranks = rank, ranks

    def batches_per_epoch(self) -> int:
        """Return the number of batches per epoch, the same for every process."""
        whole, rest = divmod(self.groups, self.per_batch)
        return whole + (rest >= self.ranks)

    def __len__(self) -> int:
        return self.batches_per_epoch() * len(self.epochs)

    def __iter__(self) -> Iterator[list[Key]]:
        for epoch in self.epochs:
            groups = self.groups_of(epoch)
            for batch in range(self.batches_per_epoch()):
                count = min(self.per_batch, len(groups) - batch * self.per_batch)
                own = np.array_split(np.arange(count) + batch * self.per_batch, self.ranks)[self.rank]
                yield [key for group in own for key in groups[group]]


def repeated_batches(
    rows: Sequence[int],
    batch_size: int,
    repetitions: int,
    first_epoch: int,
    last_epoch: int,
    seed: int,
    rank: int = 0,
    ranks: int = 1,
) -> GroupBatches:
    """Build batches with repeated augmentations (MultiGrain, section 4.1: a batch size of 512 and 3 repetitions).

    Args:
        rows: Rows of the images.
        batch_size: A batch has ⌈batch_size / repetitions⌉ different images.
        repetitions: Edited copies of each image in a batch, at least 2.
        first_epoch: The first epoch of the stream.
        last_epoch: The epoch before which the stream ends.
        seed: Seed of the order.
        rank: Rank of this process.
        ranks: Number of processes.

    Raises:
        UserError: fewer than two repetitions, or a batch has fewer images than there are processes.
    """
    if repetitions < 2:
        raise UserError(f"{repetitions} repetition(s) of an image make no pair of copies; at least two are needed.")
    images = np.array(rows)

    def groups_of(epoch: int) -> list[list[Key]]:
        order = generator_for(seed, epoch, "order of the repeated images").permutation(images)
        return [[(epoch, int(row), again) for again in range(repetitions)] for row in order]

    return GroupBatches(groups_of, len(images), -(-batch_size // repetitions), range(first_epoch, last_epoch), rank, ranks)


def pk_batches(
    rows: Sequence[int],
    labels: Sequence[int],
    classes_per_batch: int,
    images_per_class: int,
    first_epoch: int,
    last_epoch: int,
    seed: int,
    rank: int = 0,
    ranks: int = 1,
) -> GroupBatches:
    """Build PK batches: P classes with K images each (IDEAL, section 5.1: 8 and 4).

    Every class is drawn at least ⌈its images / K⌉ times per epoch, so that all its images are seen. The classes of a batch are
    distinct: when only large classes are left, others are drawn again beside them, with new edits, so that no batch lacks
    negatives. If there are fewer than P classes, every batch contains all of them, equally often. A class with fewer than K
    images repeats some with new edits, so one image is enough.

    Args:
        rows: Rows of the images.
        labels: The class of each of `rows`.
        classes_per_batch: P.
        images_per_class: K, at least 2.
        first_epoch: The first epoch of the stream.
        last_epoch: The epoch before which the stream ends.
        seed: Seed of the order.
        rank: Rank of this process.
        ranks: Number of processes.

    Raises:
        UserError: K is below 2, or a batch has fewer classes than there are processes.
    """
    if images_per_class < 2:
        raise UserError(f"{images_per_class} image(s) per class in a batch make no positive pair; at least two are needed.")
    by_class: dict[int, list[int]] = {}
    for row, label in zip(rows, labels, strict=True):
        by_class.setdefault(int(label), []).append(int(row))
    times = {label: -(-len(members) // images_per_class) for label, members in by_class.items()}
    different = max(1, min(classes_per_batch, len(by_class)))
    per_batch = classes_per_batch // different * different

    def groups_of(epoch: int) -> list[list[Key]]:
        rng = generator_for(seed, epoch, "order of the classes")
        order = {int(label): rng.permutation(by_class[int(label)]).tolist() for label in rng.permutation(sorted(by_class))}
        taken = dict.fromkeys(order, 0)
        groups = []
        for label in _arrange_rounds(list(order), times, different):
            groups.append(_group(order[label], taken[label], images_per_class, epoch))
            taken[label] += 1
        return groups

    groups = len(_arrange_rounds(list(by_class), times, different))
    return GroupBatches(groups_of, groups, per_batch, range(first_epoch, last_epoch), rank, ranks)


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


def _group(images: list[int], number: int, size: int, epoch: int) -> list[Key]:
    """Return group `number` of `size` keys of a class; images are reused cyclically, each time as another repetition."""
    places = range(number * size, (number + 1) * size)
    return [(epoch, images[place % len(images)], place // len(images)) for place in places]
