"""Batches in which images come in groups: several edited copies of each image, or several images of each class.

Both are a stream of keys (epoch, row, repetition) over several epochs, the same for any number of workers, as EpochBatches is.
pytorch-metric-learning's MPerClassSampler draws from NumPy's global generator, so it is not used.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from augmentations.dataset import Key
from augmentations.randomness import generator_for
from data.errors import UserError

Groups = Callable[[int], list[list[Key]]]


class GroupBatches(Sampler[list[Key]]):
    """Batches of whole groups of keys.

    The last, smaller batch of an epoch is kept. Each of several processes takes whole groups of every batch, as evenly as
    possible;
    a last batch with fewer groups than processes is left out.

    Args:
        groups_of: the groups of an epoch, in their order.
        groups: how many groups an epoch has.
        per_batch: groups in a batch, of all processes together.
        epochs: of the stream.
        rank: this process's number.
        ranks: how many processes share the batches.

    Raises:
        UserError: a batch does not have a group for each process.
    """

    def __init__(self, groups_of: Groups, groups: int, per_batch: int, epochs: range, rank: int = 0, ranks: int = 1) -> None:
        if min(per_batch, groups) < ranks:
            raise UserError(
                f"batches of {per_batch} of the stage's {groups} groups of images have none for each of {ranks} processes: "
                "raise batch_size, add images, or start fewer processes."
            )
        self.groups_of, self.groups, self.per_batch, self.epochs = groups_of, groups, per_batch, epochs
        self.rank, self.ranks = rank, ranks

    def batches_per_epoch(self) -> int:
        """How many batches an epoch has, the same for every process."""
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
    """Batches of repeated augmentations (MultiGrain, section 4.1: a batch size of 512 and 3 repetitions).

    Args:
        rows: of the images.
        batch_size: a batch has ⌈batch_size / repetitions⌉ images.
        repetitions: edited copies of each image, at least 2.
        first_epoch: the first epoch of the stream.
        last_epoch: the epoch before which the stream ends.
        seed: of the order.
        rank: this process's number.
        ranks: how many processes share the batches.

    Raises:
        UserError: one repetition, or a batch does not have an image for each process.
    """
    if repetitions < 2:
        raise UserError(f"{repetitions} repetitions of an image make no pair of copies; two or more do.")
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
    """Batches of P classes with K images each (IDEAL, section 5.1: 8 and 4).

    Every class comes at least ⌈its images / images_per_class⌉ times an epoch, so that all its images are seen. The classes of a
    batch are different: where only the larger ones are left, others come again beside them, with new edits, so that no batch
    lacks negatives. With fewer classes than asked for, every batch holds all of them, equally often. A group short of
    images repeats some with new edits: one image of a class is enough.

    Args:
        rows: of the images.
        labels: the class of each of `rows`.
        classes_per_batch: P.
        images_per_class: K, at least 2.
        first_epoch: the first epoch of the stream.
        last_epoch: the epoch before which the stream ends.
        seed: of the order.
        rank: this process's number.
        ranks: how many processes share the batches.

    Raises:
        UserError: one image of a class, or a batch does not have a group for each process.
    """
    if images_per_class < 2:
        raise UserError(f"{images_per_class} image of a class in a batch makes no pair; two or more do.")
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
        for label in _rounds(list(order), times, different):
            groups.append(_group(order[label], taken[label], images_per_class, epoch))
            taken[label] += 1
        return groups

    groups = len(_rounds(list(by_class), times, different))
    return GroupBatches(groups_of, groups, per_batch, range(first_epoch, last_epoch), rank, ranks)


def _rounds(order: list[int], times: dict[int, int], different: int) -> list[int]:
    """The classes in rounds, each in its first `times` rounds.

    Where a round is no multiple of `different`, it is filled up with classes that its last, incomplete part does not hold.
    """
    result: list[int] = []
    for number in range(max(times.values(), default=0)):
        own = [label for label in order if times[label] > number]
        rest = len(own) % different
        last = set(own[len(own) - rest :])
        result += own + [label for label in order if label not in last][: -len(own) % different]
    return result


def _group(images: list[int], number: int, size: int, epoch: int) -> list[Key]:
    """The group number `number` of `size` images of a class; images come again and again, each time in another repetition."""
    places = range(number * size, (number + 1) * size)
    return [(epoch, images[place % len(images)], place // len(images)) for place in places]
