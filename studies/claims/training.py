"""Trainings of the claims through the project's own trainer, on shapes or photographs, and vectors of test images."""

import csv
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from image_copies.data.arrays import Bools
from image_copies.data.images import ImageSet
from image_copies.data.labels import LabelledImages, label_images, read_class_folders
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training.curve import read_rows
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer

from .claim import Arm, Figures
from .shapes import write_disjoint_shapes

VERSION = 3  # of the images and figures below: what was measured with another one is measured again
# of the shapes; as many classes again are unseen
CLASSES = 24
TRAINING_PER_CLASS = 16
HELD_OUT_PER_CLASS = 12
TRAINING_SHARE = 2 / 3  # of each known class of photographs; the others are held out
OVERLAYS = 8  # images that edits may paste
EPOCHS = 10  # rows of a training's curve, all of as many steps
DIMENSIONS = 64


@dataclass(frozen=True)
class Sets:
    """Images with classes.

    Attributes:
        train: Training images.
        held_out: Other images of the same classes.
        unseen: Images of other classes.
        overlays: Images that edits may paste.
    """

    train: LabelledImages
    held_out: LabelledImages
    unseen: LabelledImages
    overlays: ImageSet


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
    """What all trainings on the same images share.

    Attributes:
        folder: Where images and trainings are written.
        steps: Steps of each training.
        seeds: Number of runs, in words only.
        photographs: Folder of photographs in class folders; None for shapes.
        descriptor: Backbone, and what it starts from.
        side: Side of the input in pixels.
        batch: Images in a batch.
        rate_factor: Times the learning rates of trainings from scratch; of claims 7 and 8, which are about rates, not.
    """

    folder: Path
    steps: int
    seeds: int
    photographs: Path | None
    descriptor: dict[str, Any]
    side: int
    batch: int
    rate_factor: float = 1.0

    @cached_property
    def sets(self) -> Sets:
        """The images, drawn or listed when they are first needed."""
        return (
            draw_shapes(self.folder / "shapes")
            if self.photographs is None
            else split_photographs(self.photographs)
        )

    @cached_property
    def classes(self) -> tuple[int, int]:
        """Numbers of known and of unseen classes."""
        if self.photographs is None:
            return CLASSES, CLASSES
        return len(self.sets.train.names), len(self.sets.unseen.names)

    @property
    def about(self) -> str:
        """What is run, in words."""
        if self.photographs is None:
            images, start = "shapes", ""
        else:
            images = f"photographs, {self.classes[0]} classes with {len(self.sets.train)} training images"
            start = " from given weights" if self.descriptor.get("weights") else ""
        network = f"{self.descriptor['backbone']}{start} at {self.side} px"
        return f"{images}, {network}, {self.steps} steps of {self.batch}, {self.seeds} seeds"

    @property
    def suffix(self) -> str:
        """What is appended to the number of a claim on these images."""
        return "" if self.photographs is None else ", photographs"

    def describe(self, steps: int, batch: int, settings: dict[str, Any]) -> dict[str, Any]:
        """Return what tells a measurement from another one, for the results file."""
        images: Any = (
            "shapes"
            if self.photographs is None
            else [len(self.sets.train), len(self.sets.unseen), *self.classes]
        )
        settings = settings | {
            "descriptor": self.descriptor | {"weights": "none"} | settings.get("descriptor", {})
        }
        start = "weights" if self.descriptor.get("weights") else "none"  # without its path
        about = {
            "bench": VERSION,
            "images": images,
            "start": start,
            "side": self.side,
            "rate_factor": self.rate_factor,
        }
        return about | {"steps": steps, "batch": batch, "settings": settings}

    def arm(
        self,
        name: str,
        measure: Callable[["Bench", Trained], Figures],
        measure_start: Callable[["Bench", Descriptor], Figures] | None = None,
        *,
        batch: int | None = None,
        **changed: Any,
    ) -> Arm:
        """Return an arm that trains once for each seed.

        Args:
            name: Name of the arm, the same on all images.
            measure: Measures the trained network.
            measure_start: Measures a network before any training, where it may start from given weights.
            batch: Images in a batch; None for the bench's.
            **changed: Keys of ModelSettings; those of `descriptor` are added to the bench's.
        """
        batch, steps = batch or self.batch, self.steps
        full = name + self.suffix

        def work(seed: int) -> Figures:
            trained = train(
                self, self.sets, full.replace(" ", "-").replace(",", ""), seed, steps, batch, **changed
            )
            figures = measure(self, trained)
            shutil.rmtree(trained.folder)
            return figures

        start = None
        if measure_start is not None and self.descriptor.get("weights"):
            start = self._start(name, measure_start, changed.get("descriptor", {}))
        return Arm(full, self.describe(steps, batch, changed), work, start)

    def _start(
        self, name: str, measure: Callable[["Bench", Descriptor], Figures], changed: dict[str, Any]
    ) -> Arm:
        """Return the arm of a network before any training, shared by all that start from the same weights and head."""
        own = [f"{key} {value}" for key, value in sorted(changed.items())]
        full = ", ".join([f"start of {name.split()[0]}", *own]) + self.suffix

        def work(seed: int) -> Figures:
            torch.manual_seed(seed)
            return measure(
                self, Descriptor(DescriptorSettings.model_validate(self.describe_network(changed))).eval()
            )

        return Arm(full, self.describe(0, 0, {"descriptor": changed}), work)

    def describe_network(self, changed: dict[str, Any]) -> dict[str, Any]:
        """Return the keys of DescriptorSettings."""
        return {"dimensions": DIMENSIONS, "train_pooling_exponent": False} | self.descriptor | changed


def draw_shapes(folder: Path) -> Sets:
    """Draw procedural images into a folder: known and unseen classes."""
    known, unseen = write_disjoint_shapes(
        folder, CLASSES, CLASSES, TRAINING_PER_CLASS + HELD_OUT_PER_CLASS, seed=0, size=96
    )
    place = np.array([int(image_id.rsplit("-", 1)[1]) for image_id in known.images.ids])
    return _divide(known, unseen, place < TRAINING_PER_CLASS)


def split_photographs(folder: Path) -> Sets:
    """Take every second class of photographs as known, and two thirds of its images for training.

    Raises:
        UserError: The folder has no classes.
    """
    found = read_photographs(folder)
    known, unseen = (found.part(found.labels % 2 == first) for first in (0, 1))
    place = np.zeros(len(known))
    size = np.bincount(known.labels)
    for label in range(len(known.names)):
        place[known.labels == label] = np.arange(size[label]) / size[label]
    return _divide(known, unseen, place < TRAINING_SHARE)


def _divide(known: LabelledImages, unseen: LabelledImages, learnt: Bools) -> Sets:
    train = known.part(learnt)
    held_out = known.part(~learnt)
    overlays = unseen.images.select(unseen.images.ids[-OVERLAYS:])
    unseen = unseen.part(np.arange(len(unseen)) < len(unseen) - OVERLAYS)
    return Sets(train, held_out, unseen, overlays)


def train(
    bench: Bench, sets: Sets, name: str, seed: int, steps: int, batch: int, **changed: Any
) -> Trained:
    """Train a descriptor on the training images of `sets` for a number of steps; `changed` holds keys of ModelSettings."""
    epochs = min(EPOCHS, steps)
    # the same for every sampling
    sampling = changed.get("sampling", {"kind": "epoch"}) | {"iterations": steps // epochs}
    settings = {
        "edits": "multigrain_full",
        "optimizer": {"kind": "sgd", "learning_rate": 0.1 * bench.rate_factor, "clip_norm": 10.0},
        "scheduler": {"kind": "constant"},
    }
    stage = {"image_size": bench.side, "batch_size": batch, "epochs": epochs}
    descriptor = bench.describe_network(changed.get("descriptor", {}))
    model = ModelSettings.model_validate(
        settings
        | changed
        | {"descriptor": descriptor, "sampling": sampling, "stages": [stage], "workers": 0}
    )
    folder = bench.folder / f"{name}-{seed}"
    path = Trainer(
        model,
        sets.train.images,
        sets.overlays,
        folder,
        bench.folder / "cache",
        seed,
        labels=sets.train.labels,
    ).train()
    return Trained(require_trained_network(load_descriptor(path), path).eval(), folder, read_rows(folder))


SOURCES = "SOURCES.tsv"  # columns file, repository, path
# whose folders are classes
COLLECTIONS = ("101_ObjectCategories/", "clothing-dataset", "Dog-Cat", "flower_photos")
NO_CLASS = "BACKGROUND_Google"
MOST_OF_A_CLASS = 24


def read_photographs(folder: Path) -> LabelledImages:
    """Read class folders, or a collection with SOURCES.tsv: the class is the folder that a photograph had in its source.

    Raises:
        UserError: There are neither.
    """
    if not (folder / SOURCES).is_file():
        return read_class_folders(folder)
    of_class: dict[str, list[str]] = {}
    with (folder / SOURCES).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            source = Path(row["repository"], row["path"])
            if any(part in str(source) for part in COLLECTIONS) and source.parent.name != NO_CLASS:
                of_class.setdefault(source.parent.name, []).append(row["file"])
    chosen = [(name, file) for name in sorted(of_class) for file in of_class[name][:MOST_OF_A_CLASS]]
    paths = [folder / "training_images" / file for _, file in chosen]
    return label_images(
        ImageSet([Path(file).stem for _, file in chosen], paths), [name for name, _ in chosen]
    )
