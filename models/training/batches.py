"""The batches of a stage: which images, in which order."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from lightning_fabric import Fabric

from image_copies.augmentations.dataset import MAX_REPETITIONS_PER_PASS, Key
from image_copies.augmentations.sampling import Stream, epoch_batches, pk_batches, repeated_batches
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import SamplingSettings, StageSettings
from image_copies.models.training.state import Progress


class Batches(Protocol):
    """A stream over several epochs of this process's part of each batch, as lists of keys."""

    def batches_per_epoch(self) -> int:
        """Return the number of batches per epoch."""

    def __iter__(self) -> Iterator[list[Key]]: ...


class RemainingBatches:
    """The same batches without the first `done` ones, for a resumed epoch."""

    def __init__(self, batches: Batches, done: int) -> None:
        self.batches, self.done = batches, done

    def batches_per_epoch(self) -> int:
        """Return the number of batches of a complete epoch, including those that are done."""
        return self.batches.batches_per_epoch()

    def __iter__(self) -> Iterator[list[Key]]:
        return islice(iter(self.batches), self.done, None)


class FixedLengthEpochs:
    """Epochs of `iterations` batches each, from as many passes over the images as that takes; the last pass may be cut off.

    Each pass has its own order. An image that is drawn again in a later pass of the same epoch gets its own repetition number,
    and therefore other edits. `passes` builds the batches of passes first, …, last − 1.
    """

    def __init__(self, passes: Callable[[int, int], Batches], iterations: int, epochs: range) -> None:
        self.passes, self.iterations, self.epochs = passes, iterations, epochs
        self.per_pass = passes(0, 1).batches_per_epoch()

    def batches_per_epoch(self) -> int:
        """Return the fixed number of batches per epoch."""
        return self.iterations

    def __iter__(self) -> Iterator[list[Key]]:
        needed = math.ceil(self.iterations / self.per_pass)
        for epoch in self.epochs:
            batches = self.passes(epoch * needed, (epoch + 1) * needed)
            for number, keys in enumerate(islice(batches, self.iterations)):
                again = number // self.per_pass * MAX_REPETITIONS_PER_PASS
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
    """Build the batches that remain of a stage, of the images `rows`, whose classes are found by row.

    Raises:
        UserError: A batch is too small for the number of processes.
    """
    sampling, size = settings.sampling, stage.batch_size

    def passes(first: int, last: int) -> Batches:
        stream = Stream(range(first, last), seed, fabric.global_rank, fabric.world_size)
        match sampling:
            case SamplingSettings(kind="repeated", copies=copies):
                return repeated_batches(rows, size, copies, stream)
            case SamplingSettings(kind="pk", per_class=per_class):
                labels = [class_of[row] for row in rows]
                return pk_batches(rows, labels, size // per_class, per_class, stream)
            case _:
                return epoch_batches(rows, size, stream, whole=settings.compile)

    epochs = range(progress.epoch, stage.epochs)
    fixed = settings.iterations_of(stage)
    batches = passes(epochs.start, epochs.stop) if fixed is None else FixedLengthEpochs(passes, fixed, epochs)
    return RemainingBatches(batches, progress.batch)
