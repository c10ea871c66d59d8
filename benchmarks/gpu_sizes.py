"""Sizes of the parts of benchmarks/gpu.py: those of recipes/isc2021.yaml, and toy ones to test the code."""

from dataclasses import dataclass
from pathlib import Path

from image_copies.pipeline.run.recipe import read_recipe

RECIPE = Path(__file__).parents[1] / "recipes" / "isc2021.yaml"


@dataclass(frozen=True)
class StepSize:
    """Sizes of a training step."""

    backbone: str
    classes: int
    dimensions: int
    batch: int
    image_size: int  # pixels
    chunk: int = 131_072  # classes


@dataclass(frozen=True)
class Sizes:
    """Sizes of all parts."""

    models: dict[str, StepSize]  # training steps by name, small images first
    compared: tuple[str, ...]  # those of which the ways to make a step are compared
    batches: tuple[int, ...]  # at which they are
    losses: int  # steps of which the losses are compared
    precision: str  # as in a recipe
    repeats: int  # timed steps
    trained: dict[str, int | str]  # descriptor settings of the trainings that are compared bit by bit
    epochs: int  # of these trainings
    pictures: int  # procedural ones


def read_steps() -> dict[str, StepSize]:
    """Return the steps of the recipe's models in their last stages."""
    found = dict[str, StepSize]()
    for name, model in read_recipe(RECIPE).trained_models.items():
        stage, width = model.stages[-1], model.descriptor.dimensions or 0
        found[name] = StepSize(model.descriptor.backbone, stage.classes or 0, width, stage.batch_size, stage.image_size)
    return dict(sorted(found.items(), key=lambda named: named[1].image_size))


FULL = Sizes(
    models=read_steps(),
    compared=("v2s-160", "b5-256d-large"),
    batches=(64, 512),
    losses=200,
    precision="bf16",
    repeats=15,
    trained={"backbone": "tf_efficientnetv2_b0", "dimensions": 256},
    epochs=20,
    pictures=600,
)
TOY = StepSize("test_efficientnet", 300, 16, 4, 32, 128)
SMOKE = Sizes(  # with the names of the items that the calls of docs/gpu.md ask for
    models={"v2s-160": TOY, "b5-256d-large": TOY},
    compared=FULL.compared,
    batches=(4, 8),
    losses=8,
    precision="32",
    repeats=2,
    trained={"backbone": "test_efficientnet", "dimensions": 16},
    epochs=3,
    pictures=16,
)
