"""Batches of several classes with several images each, P and K."""

from collections.abc import Sequence

import numpy as np

from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.sampling import Batches, Stream, group_batches
from image_copies.data.arrays import Int64s
from image_copies.models.training.settings import SamplingSettings


def pk_batches(
    settings: SamplingSettings, rows: Sequence[int], labels: Sequence[int], batch_size: int, stream: Stream
) -> Batches:
    """Build batches: P classes with K images each (IDEAL, section 5.1: 8 and 4); `labels` are the classes of `rows`.

    Every class is drawn at least ⌈its images / K⌉ times per epoch, so that all its images are seen. The classes of a batch are
    distinct: when only large classes are left, others are drawn again next to them, with new edits, so that no batch lacks
    negatives. If there are fewer than P classes, every batch contains all of them, equally often. A class with fewer than K
    images repeats some with new edits, so one image is enough.

    Raises:
        UserError: a batch has fewer classes than there are processes.
    """
    images_per_class = settings.per_class
    classes_per_batch = batch_size // images_per_class
    by_class: dict[int, list[int]] = {}
    for row, label in zip(rows, labels, strict=True):
        by_class.setdefault(int(label), []).append(int(row))
    times = {label: -(-len(members) // images_per_class) for label, members in by_class.items()}
    different = max(1, min(classes_per_batch, len(by_class)))
    per_batch = classes_per_batch // different * different

    def groups_of(epoch: int) -> Int64s:
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

    return group_batches(
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
