"""Trainings on procedural shapes through the project's own trainer, and vectors of test images."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from claim_rows.store import Figures, Store
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from augmentations.dataset import normalize_pixels
from augmentations.in_aug import InAug, InAugImages, choose_in_aug
from data.images import ImageSet
from data.labels import LabelledImages
from data.loader import CleanImages
from data.procedural.shapes import write_disjoint_shapes
from models.network.checkpoint import load_descriptor, require_trained_network
from models.network.descriptor import Descriptor
from models.settings import ModelSettings
from models.training.curve import read_rows
from models.training.trainer import train_model

IMAGE_SIDE, BATCH_SIZE, BACKBONE = 48, 48, "test_efficientnet"
VERSION = 2  # of the images and figures below: what was measured with another one is measured again
CLASSES, TRAINING_PER_CLASS, HELD_OUT_PER_CLASS, COPIED_IMAGES = (
    24,
    16,
    12,
    60,
)  # of each kind; training and held-out images per class; images copied for IN-aug


@dataclass(frozen=True)
class Shapes:
    """Procedural images with classes.

    Attributes:
        train: Training images.
        held_out: Other images of the same classes.
        unseen: Images of other classes.
        overlays: Images that edits may paste.
        train_copies: Training images and edited versions of them.
        test_copies: Held-out images and edited versions of them.
    """

    train: LabelledImages
    held_out: LabelledImages
    unseen: LabelledImages
    overlays: ImageSet
    train_copies: InAug
    test_copies: InAug


@dataclass(frozen=True)
class Trained:
    """The result of one training.

    Attributes:
        descriptor: The trained network.
        folder: Folder of the training.
        curve: Rows of its training curve.
    """

    descriptor: Descriptor
    folder: Path
    curve: list[dict[str, str]]


@dataclass(frozen=True)
class Bench:
    """What all trainings share.

    Attributes:
        folder: Where trainings are written.
        steps: Steps of each training.
        seeds: Seeds, one training each.
        shapes: The images.
        store: The results file that keeps the figures.
    """

    folder: Path
    steps: int
    seeds: range
    shapes: Shapes
    store: Store

    def figures(
        self, name: str, work: Callable[[Trained], Figures], batch: int | None = None, **changed: Any
    ) -> dict[str, list[float]]:
        """Train once per seed with the settings `changed`, unless the file has the figures; return them by figure, run by run."""
        batch = BATCH_SIZE if batch is None else batch
        about = {"steps": self.steps, "batch": batch, "bench": VERSION, "settings": changed}
        runs = self.store.measure(
            name, about, self.seeds, lambda seed: work(train(self, name.replace(" ", "-"), seed, batch, **changed))
        )
        return {figure: [run[figure] for run in runs] for figure in runs[0]}

    @property
    def about(self) -> str:
        """What was run, in words."""
        return f"shapes, {BACKBONE} at {IMAGE_SIDE} px, {self.steps} steps of {BATCH_SIZE}, {len(self.seeds)} seeds"


def draw_shapes(folder: Path) -> Shapes:
    """Draw the images of claims 2 to 9 into a folder."""
    known, unseen = write_disjoint_shapes(folder, CLASSES, CLASSES, TRAINING_PER_CLASS + HELD_OUT_PER_CLASS, seed=0, size=96)
    place = np.array([int(image_id.rsplit("-", 1)[1]) for image_id in known.images.ids])
    train, held_out = _part(known, place < TRAINING_PER_CLASS), _part(known, place >= TRAINING_PER_CLASS)
    overlays = unseen.images.select(unseen.images.ids[-8:])
    unseen = _part(unseen, np.arange(len(unseen)) < len(unseen) - 8)
    return Shapes(
        train, held_out, unseen, overlays, choose_in_aug(train, 1, COPIED_IMAGES), choose_in_aug(held_out, 2, COPIED_IMAGES)
    )


def train(bench: Bench, name: str, seed: int, batch: int = BATCH_SIZE, **changed: Any) -> Trained:
    """Train a descriptor for the bench's number of steps; `changed` holds keys of ModelSettings."""
    sampling = changed.get("sampling", {"kind": "epoch"}) | {"iterations": bench.steps}  # the same for every sampling
    settings = {
        "descriptor": {"backbone": BACKBONE, "dimensions": 64, "train_pooling_exponent": False},
        "edits": "multigrain_full",
        "optimizer": {"kind": "sgd", "learning_rate": 0.1, "clip_norm": 10.0},
        "scheduler": {"kind": "constant"},
    }
    stage = {"image_size": IMAGE_SIDE, "batch_size": batch, "epochs": 1}
    model = ModelSettings.model_validate(settings | changed | {"sampling": sampling, "stages": [stage]})
    folder = bench.folder / f"{name}-{seed}"
    shapes = bench.shapes
    path = train_model(
        model, shapes.train.images, shapes.overlays, folder, bench.folder / "cache", seed, labels=shapes.train.labels
    )
    return Trained(require_trained_network(load_descriptor(path), path).eval(), folder, read_rows(folder))


def vectors_of(
    descriptor: Descriptor,
    images: ImageSet | InAug,
    size: int = IMAGE_SIDE,
    exponent: float | None = None,
    raw: bool = False,
    turns: int = 0,
) -> NDArray[np.float32]:
    """Embed images.

    Args:
        descriptor: The network.
        images: n images.
        size: Side of the input in pixels.
        exponent: Pooling exponent to use instead of the network's; None for its own.
        raw: Whether to return raw embeddings instead of unit vectors.
        turns: Quarter turns by which images are rotated first.

    Returns:
        float32 [n, d]; raw embeddings of a network with domains are [4, n, d / 4].
    """
    dataset: Dataset[tuple[Tensor, bool]] = (
        CleanImages(images, size) if isinstance(images, ImageSet) else InAugImages(images, size)
    )
    found: list[Tensor] = []
    with torch.inference_mode(), descriptor.pooling.set_exponent_temporarily(exponent):
        for pixels, _ in DataLoader(dataset, 128):
            batch = torch.rot90(normalize_pixels(pixels, descriptor.mean, descriptor.std), turns, dims=(2, 3))
            found.append(descriptor(batch, raw=raw))
    return torch.cat(found, dim=-2).numpy()


def _part(labelled: LabelledImages, chosen: NDArray[np.bool_]) -> LabelledImages:
    rows = np.flatnonzero(chosen).tolist()
    images = ImageSet([labelled.images.ids[row] for row in rows], [labelled.images.paths[row] for row in rows])
    return LabelledImages(images, labelled.labels[rows], labelled.names)
