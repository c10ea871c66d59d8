"""Batches in which images come in pairs: several edited copies of each image, or several images of each class.

Both are a stream of keys (epoch, row, repetition) over several epochs, the same for any number of workers, as EpochBatches is.
pytorch-metric-learning's MPerClassSampler draws from numpy's global generator, hence ours.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from augmentations.dataset import Key
from augmentations.randomness import generator_for
from data.errors import UserError

Groups = Callable[[int], list[list[Key]]]


class GroupBatches(Sampler[list[Key]]):
    """Batches of `per_batch` groups; `groups_of(epoch)` gives the `groups` groups of keys of an epoch in their order.

    The last, smaller batch of an epoch is kept. Of `ranks` processes each takes whole groups of every batch, as evenly as can
    be; a last batch with fewer groups than processes is left out.
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
    """⌈batch_size / repetitions⌉ images a batch, `repetitions` edited copies of each (MultiGrain, section 3: 512 and 3)."""
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
    """`classes_per_batch` classes a batch, `images_per_class` images of each (IDEAL: 8 and 4); `labels` go with `rows`.

    Every class comes ⌈its images / images_per_class⌉ times an epoch at least, so that all its images are seen. The classes of a
    batch are different: where the larger ones alone are left, others come again beside them, edited anew, so that no batch lacks
    negatives. With fewer classes than asked for, every batch holds all of them, equally often. A group short of images repeats
    some, edited anew: one image a class is enough.
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
    """The classes in rounds, each in its `times` first ones; what a round lacks to a multiple of `different` is filled with
    classes that its last, incomplete part does not hold."""
    result: list[int] = []
    for number in range(max(times.values(), default=0)):
        own = [label for label in order if times[label] > number]
        rest = len(own) % different
        last = set(own[len(own) - rest :])
        result += own + [label for label in order if label not in last][: -len(own) % different]
    return result


def _group(images: list[int], number: int, size: int, epoch: int) -> list[Key]:
    """The `number`-th `size` images of a class, which come again and again, each time in another repetition."""
    places = range(number * size, (number + 1) * size)
    return [(epoch, images[place % len(images)], place // len(images)) for place in places]
