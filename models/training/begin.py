"""What the stages of a training share, as it begins or is taken up again: the network, the images, the saved state."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import nn

from image_copies.augmentations.composition import check_probabilities
from image_copies.augmentations.randomness import derived_seed
from image_copies.data.images import ImageSet
from image_copies.data.process import choose_workers
from image_copies.models.network.descriptor import Descriptor, check_image_sizes
from image_copies.models.network.memory_format import choose_memory_format
from image_copies.models.training.class_counts import check_class_counts
from image_copies.models.training.curve import remove_curve
from image_copies.models.training.final_whitening import check_whitening, choose_whitening_images
from image_copies.models.training.launch import launch_fabric
from image_copies.models.training.learner import set_up_network
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.state import DRAWN_FOR, Identity, Progress, identify_training, load_state

T = TypeVar("T")
Validate = Callable[[Descriptor, int], float]
Watch = Callable[[Descriptor, int, nn.Linear | None], dict[str, float]]


@dataclass(frozen=True)
class Training:
    """What the stages of a training share."""

    settings: ModelSettings
    fabric: Fabric
    descriptor: Descriptor
    network: Any  # the same, as the processes train it
    classes: ImageSet
    overlays: ImageSet  # images that edits paste into others
    class_of: list[int]  # class of each image to learn from
    labelled: bool  # whether the classes come from labels
    folder: Path
    cache: Path
    seed: int  # of everything that is drawn
    identity: Identity
    workers: int  # processes that edit images
    validate: Callable[[int], float | None]  # µAP of the descriptor at an image size, on the first process
    watch: Callable[[int, nn.Linear | None], dict[str, float] | None] | None  # its figures, with any linear classifier


def begin_training(
    settings: ModelSettings,
    classes: ImageSet,
    overlays: ImageSet,
    folder: Path,
    cache: Path,
    seed: int,
    validate: Validate | None,
    watch: Watch | None,
    labels: NDArray[np.int64] | None,
    name: str,
) -> tuple[Training, Progress, dict[str, Any]]:
    """Return what the stages share, where the training stands, and its saved state, {} of a new one.

    The arguments, among them labels [n], are those of `train_model`.

    Raises:
        UserError: Too few classes, an image size that the backbone cannot take, or a state that cannot be read.
    """
    fabric = launch_fabric(settings.precision)
    class_of = list(range(len(classes))) if labels is None else [int(label) for label in labels]
    check_class_counts(settings.stages, len(set(class_of)), fabric.print)
    for stage in settings.stages:
        check_probabilities(settings.edits_of(stage))
    identity = identify_training(
        settings=settings, classes=classes, overlays=overlays, labels=None if labels is None else class_of, seed=seed, name=name
    )
    saved = load_state(folder, identity, fabric)
    progress, state = saved or (Progress(), {})
    torch.manual_seed(derived_seed(seed, identity[DRAWN_FOR]))
    descriptor = Descriptor(settings.descriptor, load_weights=not state)  # whose file may have gone since
    if not state and fabric.global_rank == 0:
        remove_curve(folder)
    if state:
        descriptor.load_state_dict(state["descriptor"])
    check_image_sizes(descriptor, (stage.image_size for stage in settings.stages))
    training = Training(
        settings=settings,
        fabric=fabric,
        descriptor=descriptor,
        network=set_up_network(fabric, descriptor, settings.compile, _choose_memory_format(settings, fabric, descriptor, state)),
        classes=classes,
        overlays=overlays,
        class_of=class_of,
        labelled=labels is not None,
        folder=folder,
        cache=cache,
        seed=seed,
        identity=identity,
        workers=choose_workers(settings.workers),
        validate=partial(_look, fabric, validate, descriptor),
        watch=watch and partial(_look, fabric, watch, descriptor),
    )
    return training, progress, state


def _choose_memory_format(
    settings: ModelSettings, fabric: Fabric, descriptor: Descriptor, state: dict[str, Any]
) -> torch.memory_format:
    """The memory format of a stage that goes on; else what the first process measures, or the same in every run if it must be."""
    if settings.deterministic:
        return torch.channels_last
    if "memory_format" in state:
        return torch.contiguous_format if state["memory_format"] == str(torch.contiguous_format) else torch.channels_last
    contiguous, stage = False, settings.stages[0]
    if fabric.global_rank == 0:
        batch = max(2, stage.batch_size // fabric.world_size)
        chosen = choose_memory_format(descriptor, fabric.device, stage.image_size, batch, settings.precision, learns=True)
        contiguous = chosen is torch.contiguous_format
    return torch.contiguous_format if fabric.broadcast(contiguous) else torch.channels_last


def find_unlabelled(training: Training) -> ImageSet:
    """Return the images that a whitening is fitted on, enough of them; none where the descriptor does not whiten."""
    settings, classes = training.settings, training.classes
    if not settings.descriptor.whiten:
        return ImageSet([], [])
    learnt_last = settings.stages[-1].classes or len(training.class_of)
    learnt = classes.select([classes.ids[row] for row, label in enumerate(training.class_of) if label < learnt_last])
    unlabelled = choose_whitening_images(settings.whitening_images, training.seed, training.overlays, learnt)
    check_whitening(training.descriptor, len(unlabelled))
    return unlabelled


def _look(fabric: Fabric, look: Callable[..., T] | None, descriptor: Descriptor, *given: Any) -> T | None:
    """The first process scores while the others wait; None, with a message, where that fails: training does not depend on it."""
    score = None
    if look and fabric.global_rank == 0:
        try:
            score = look(descriptor, *given)
        except Exception as error:  # whatever a search or a full card raises
            reason = (str(error).splitlines() or [""])[0]
            fabric.print(f"  the validation failed, training goes on without it: {type(error).__name__}: {reason}", flush=True)
        if fabric.device.type == "cuda":
            torch.cuda.empty_cache()  # what was tried with other batch sizes is not needed any more
    descriptor.train()
    fabric.barrier()
    return score
