"""What follows the last stage of a training: whitening learnt on unlabelled images, and the classifier beside the checkpoint."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from augmentations.dataset import EditedImages, normalize_pixels
from augmentations.settings import AugmentationSettings
from data.cache import SquareImages
from data.errors import UserError
from data.files import whole_file
from models.network.descriptor import Descriptor
from models.network.whitening import Whitening, fit_whitening
from models.objectives.base import Objective
from models.settings import ModelSettings

CLASSIFIER = "classifier.safetensors"
WHITENING_IMAGES = 20_000  # the paper takes 20,000 of YFCC100M (MultiGrain, section 4.1)


def check_whitening(descriptor: Descriptor, images: int) -> None:
    """UserError, before training rather than after it, where so few images cannot whiten the descriptor's vectors."""
    if descriptor.settings.whiten and images <= descriptor.dimensions:
        raise UserError(
            f"whiten: {images} training images cannot whiten {descriptor.dimensions} dimensions, it takes more images than "
            "dimensions. Lower descriptor.dimensions, leave whiten out, or add training images."
        )


@torch.no_grad()
def learn_whitening(
    descriptor: Descriptor, parts: Sequence[tuple[SquareImages, list[int]]], settings: ModelSettings, size: int, seed: int
) -> None:
    """Fit the descriptor's whitening on clean images, whose labels are not looked at."""
    device = next(descriptor.parameters()).device
    descriptor.eval()
    found: list[Tensor] = []
    for squares, rows in parts:
        keys = [(0, row, 0) for row in rows][: WHITENING_IMAGES - sum(map(len, found))]
        clean = EditedImages(squares, AugmentationSettings(family="none"), size, seed)
        loader = DataLoader(clean, 128, sampler=keys, num_workers=settings.workers)
        for pixels, _ in tqdm(loader, desc="whitening", unit="batch", leave=False):
            found.append(descriptor(normalize_pixels(pixels.to(device), descriptor.mean, descriptor.std), raw=True).float())
    whitening = fit_whitening(torch.cat(found))
    descriptor.whitening_mean.copy_(whitening.mean)
    descriptor.whitening_matrix.copy_(whitening.matrix)


def save_classifier(folder: Path, objective: Objective) -> None:
    """Write the linear classifier [c, d] of an objective that has one."""
    classifier = objective.linear_classifier()
    if classifier is not None:
        with whole_file(folder / CLASSIFIER) as temporary:
            save_file({name: value.cpu().contiguous() for name, value in classifier.state_dict().items()}, temporary)


def load_classifier(checkpoint: Path) -> tuple[Tensor, Tensor]:
    """Weight [c, d] and bias [c] beside a last stage's checkpoint; UserError where there is none, or for an earlier stage."""
    path = checkpoint.parent / CLASSIFIER
    if not path.is_file():
        raise UserError(
            f"{path} is missing: only models with the objectives softmax and multigrain (λ above 0) have a classifier."
        )
    if (later := _next_stage(checkpoint)).is_file():
        raise UserError(f"{path} belongs to the last stage, {checkpoint.name} is followed by {later.name}: name the last.")
    state = load_file(path)
    return state["weight"], state["bias"]


def has_classifier(checkpoint: Path) -> bool:
    """Whether load_classifier finds one."""
    return (checkpoint.parent / CLASSIFIER).is_file() and not _next_stage(checkpoint).is_file()


def _next_stage(checkpoint: Path) -> Path:
    """stage-2.safetensors of stage-1.safetensors; a path where nothing is of a file that is named otherwise."""
    number = checkpoint.stem.removeprefix("stage-")
    return checkpoint.with_stem(f"stage-{int(number) + 1}") if number.isdecimal() else checkpoint / "none"


def whitening_of(descriptor: Descriptor) -> Whitening | None:
    """The descriptor's whitening; None where it has none."""
    return Whitening(descriptor.whitening_matrix, descriptor.whitening_mean) if descriptor.settings.whiten else None
