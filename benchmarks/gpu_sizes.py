"""Sizes of the parts of benchmarks/gpu.py: the paper's, and toy ones to test the code."""

from dataclasses import dataclass


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

    models: dict[str, StepSize]  # training steps by name, short ones first: each model at its last stage in recipes/isc2021.yaml
    compared: tuple[str, ...]  # those of which the ways to make a step are compared
    batches: tuple[int, ...]  # at which they are
    losses: int  # steps of which the losses are compared
    precision: str  # as in a recipe
    repeats: int  # timed steps
    trained: dict[str, int | str]  # descriptor settings of the trainings that are compared bit by bit
    epochs: int  # of these trainings
    pictures: int  # procedural ones


FULL = Sizes(
    models={
        "v2s-160": StepSize("tf_efficientnetv2_s", 1_000_000, 384, 64, 160),
        "nfnet-384d": StepSize("eca_nfnet_l1", 1_000_000, 384, 64, 160),
        "nfnet-256d": StepSize("eca_nfnet_l1", 1_500_000, 256, 64, 160),
        "b5-256d": StepSize("tf_efficientnet_b5", 1_500_000, 256, 64, 160),
        "b5-large": StepSize("tf_efficientnet_b5", 1_800_000, 256, 64, 160),
        "v2s-224": StepSize("tf_efficientnetv2_s", 1_200_000, 384, 64, 224),
        "v2l-512": StepSize("tf_efficientnetv2_l", 980_000, 512, 8, 512),
    },
    compared=("v2s-160", "b5-large"),
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
    models={"v2s-160": TOY, "b5-large": TOY},
    compared=FULL.compared,
    batches=(4, 8),
    losses=8,
    precision="32",
    repeats=2,
    trained={"backbone": "test_efficientnet", "dimensions": 16},
    epochs=3,
    pictures=16,
)
