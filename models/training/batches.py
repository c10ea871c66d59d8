"""Which images make up the batches of a stage."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from lightning_fabric import Fabric

from augmentations.dataset import EpochBatches, Key
from augmentations.sampling import pk_batches, repeated_batches
from models.settings import ModelSettings, SamplingSettings, StageSettings
from models.training.state import Progress

REPETITIONS_OF_A_PASS = 1_000_000  # more than any pass has of one image


class Batches(Protocol):
    """Keys of this process's part of each batch, over several epochs in one stream."""

    def batches_per_epoch(self) -> int:
        """How many batches each epoch has."""

    def __iter__(self) -> Iterator[list[Key]]: ...


class Continued:
    """The same batches without the first ones of the first epoch, which are done."""

    def __init__(self, batches: Batches, done: int) -> None:
        self.batches, self.done = batches, done

    def batches_per_epoch(self) -> int:
        """Of a whole epoch, those that are done included."""
        return self.batches.batches_per_epoch()

    def __iter__(self) -> Iterator[list[Key]]:
        return islice(iter(self.batches), self.done, None)


class FixedLength:
    """Epochs of `iterations` batches each, of whatever number of passes over the images that takes, the last one perhaps cut off.

    A pass has an order of its own. An image that comes again in a later pass of the same epoch does so in a repetition of its
    own, so with other edits.

    Args:
        passes: Makes the batches of the passes first, …, last − 1.
        iterations: Batches in an epoch.
        epochs: Of the stream.
    """

    def __init__(self, passes: Callable[[int, int], Batches], iterations: int, epochs: range) -> None:
        self.passes, self.iterations, self.epochs = passes, iterations, epochs
        self.per_pass = passes(0, 1).batches_per_epoch()

    def batches_per_epoch(self) -> int:
        """As many as were asked for."""
        return self.iterations

    def __iter__(self) -> Iterator[list[Key]]:
        needed = math.ceil(self.iterations / self.per_pass)
        for epoch in self.epochs:
            batches = self.passes(epoch * needed, (epoch + 1) * needed)
            for number, keys in enumerate(islice(batches, self.iterations)):
                again = number // self.per_pass * REPETITIONS_OF_A_PASS
                yield [(epoch, row, repetition + again) for _, row, repetition in keys]


def build_batches(
    settings: ModelSettings,
    stage: StageSettings,
    rows: Sequence[int],
    class_of: Sequence[int],
    progress: Progress,
    seed: int,
    fabric: Fabric,
) -> Batches:
    """The stage's batches of the images `rows` from where `progress` stands; class_of: image row → class; seed: of this stage."""
    sampling, size = settings.sampling, stage.batch_size
    share = (seed, fabric.global_rank, fabric.world_size)

    def passes(first: int, last: int) -> Batches:
        match sampling:
            case SamplingSettings(kind="repeated", copies=copies):
                return repeated_batches(rows, size, copies, first, last, *share)
            case SamplingSettings(kind="pk", per_class=per_class):
                labels = [class_of[row] for row in rows]
                return pk_batches(rows, labels, size // per_class, per_class, first, last, *share)
            case _:
                return EpochBatches(rows, size, first, last, *share, whole=settings.compile)

    epochs = range(progress.epoch, stage.epochs)
    fixed = sampling.iterations
    batches = passes(epochs.start, epochs.stop) if fixed is None else FixedLength(passes, fixed, epochs)
    return Continued(batches, progress.batch)
