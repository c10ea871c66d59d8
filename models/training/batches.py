"""The batches of a stage: which images, in which order, and MixUp of a batch (H. Zhang et al., 2018)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

import torch
from lightning_fabric import Fabric
from torch import Tensor

from image_copies.augmentations.dataset import MAX_REPETITIONS_PER_PASS, Key
from image_copies.augmentations.sampling import Batches, Stream, epoch_batches, pk_batches, repeated_batches
from image_copies.models.training.capture import suits_graph
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import MixSettings, SamplingSettings, StageSettings
from image_copies.models.training.state import Progress


def _fix_length(passes: Batches, iterations: int) -> Batches:
    """Return epochs of `iterations` batches each, from as many passes over the images as that takes.

    Each pass has its own order, and the last of an epoch may be cut off. An image that is drawn again in a later pass of the same
    epoch gets its own repetition number, and therefore other edits.
    """
    needed = math.ceil(iterations / passes.per_epoch)

    def draw(epoch: int) -> Iterator[list[Key]]:
        batches = chain.from_iterable(map(passes.draw, range(epoch * needed, (epoch + 1) * needed)))
        for number, keys in enumerate(islice(batches, iterations)):
            again = number // passes.per_epoch * MAX_REPETITIONS_PER_PASS
            yield [(epoch, row, repetition + again) for _, row, repetition in keys]

    return Batches(iterations, passes.epochs, draw)


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
    stream = Stream(range(progress.epoch, stage.epochs), seed, fabric.global_rank, fabric.world_size)
    match sampling:
        case SamplingSettings(kind="repeated", copies=copies):
            batches = repeated_batches(rows, size, copies, stream)
        case SamplingSettings(kind="pk", per_class=per_class):
            batches = pk_batches(rows, [class_of[row] for row in rows], size // per_class, per_class, stream)
        case _:
            batches = epoch_batches(
                rows, size, stream, whole=settings.compile or suits_graph(settings, fabric.device)
            )
    fixed = settings.iterations_of(stage)
    return replace(batches if fixed is None else _fix_length(batches, fixed), done=progress.batch)


def draw_share(settings: MixSettings) -> float | None:
    """λ of a batch from Beta(α, α), from torch's random state; None for a batch that is not mixed."""
    if float(torch.rand(())) >= settings.probability:
        return None
    drawn = torch.distributions.Beta(settings.alpha, settings.alpha).sample()
    return float(drawn)


def mix_batch(images: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Mix each image of a batch [n, 3, h, w], with one of it at random, perhaps itself, by the weights λ = `share` and 1 − λ.

    Returned are the mixed images and the partner [n] that each also shows; its class counts 1 − λ.
    """
    partner = torch.randperm(len(images)).to(images.device, non_blocking=True)
    return share * images + (1 - share) * images[partner], partner
