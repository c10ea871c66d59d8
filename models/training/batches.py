"""Which images make up the batches of a stage."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from lightning_fabric import Fabric

from augmentations.dataset import EpochBatches, Key
from augmentations.sampling import pk_batches, repeated_batches
from models.settings import ModelSettings, SamplingSettings, StageSettings
from models.training.state import Progress


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
    epochs = (progress.epoch, stage.epochs, seed)
    share = (fabric.global_rank, fabric.world_size)
    batches: Batches
    match settings.sampling:
        case SamplingSettings(kind="repeated", copies=copies):
            batches = repeated_batches(rows, stage.batch_size, copies, *epochs, *share)
        case SamplingSettings(kind="pk", per_class=per_class):
            labels = [class_of[row] for row in rows]
            batches = pk_batches(rows, labels, stage.batch_size // per_class, per_class, *epochs, *share)
        case _:
            batches = EpochBatches(rows, stage.batch_size, *epochs, *share)
    return Continued(batches, progress.batch)
