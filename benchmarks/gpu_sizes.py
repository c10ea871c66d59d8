"""Sizes of the parts of benchmarks/gpu.py: the paper's, and toy ones to test the code."""

from dataclasses import dataclass

from gpu_step import StepSize

CHUNK = 131_072  # classes


@dataclass(frozen=True)
class Sizes:
    """Sizes of all parts."""

    models: dict[str, StepSize]  # training steps by name, short ones first: each model at its last stage in recipes/isc2021.yaml
    batched: tuple[str, ...]  # those of which the step is measured by batch size
    batches: dict[str, tuple[int, ...]]  # by the way in which the step is run
    compiler: str  # what torch.compile has compile them
    head: StepSize  # training step in which the class head is measured
    large_batch: int  # of recipes/isc2021-batch-512.yaml
    precision: str  # as in a recipe
    repeats: int  # timed steps
    loader: dict[int, int]  # images per worker by image side in pixels
    loader_workers: tuple[int, ...]
    embed: tuple[tuple[str, int], ...]  # backbone, image side in pixels
    embed_images: int
    embed_batch: int
    queries: int
    references: int
    compared: int  # queries that are searched on the CPU, too
    trained: dict[str, int | str]  # descriptor settings of the trainings that are compared bit by bit
    epochs: int  # of these trainings
    pictures: int  # procedural ones


def _size(backbone: str, dimensions: int, classes: int, pixels: int) -> StepSize:
    return StepSize(backbone, classes, dimensions, 64, pixels, CHUNK)


FULL = Sizes(
    models={
        "v2s-160": _size("tf_efficientnetv2_s", 384, 1_000_000, 160),
        "nfnet-384d": _size("eca_nfnet_l1", 384, 1_000_000, 160),
        "nfnet-256d": _size("eca_nfnet_l1", 256, 1_500_000, 160),
        "b5-256d": _size("tf_efficientnet_b5", 256, 1_500_000, 160),
        "b5-large": _size("tf_efficientnet_b5", 256, 1_800_000, 160),
        "v2s-224": _size("tf_efficientnetv2_s", 384, 1_200_000, 224),
        "v2l-512": _size("tf_efficientnetv2_l", 512, 980_000, 512),
    },
    batched=("v2s-160", "b5-large"),
    batches={"eager": (64, 256, 512), "graph": (64, 512), "compiled": (64, 512)},
    compiler="inductor",
    head=_size("tf_efficientnet_b5", 256, 1_800_000, 160),
    large_batch=512,
    precision="bf16",
    repeats=15,
    loader={160: 400, 224: 300, 512: 60},
    loader_workers=(1, 8, 16),
    embed=(("tf_efficientnetv2_s", 160), ("tf_efficientnet_b5", 160), ("tf_efficientnetv2_l", 512)),
    embed_images=12_000,
    embed_batch=256,
    queries=25_000,
    references=1_000_000,
    compared=1000,
    trained={"backbone": "tf_efficientnetv2_b0", "dimensions": 256},
    epochs=20,
    pictures=600,
)
TOY = StepSize("test_efficientnet", 300, 16, 4, 32, 128)
SMOKE = Sizes(  # with the names of the items that the calls of docs/gpu.md ask for
    models={"v2s-160": TOY, "b5-large": TOY},
    batched=FULL.batched,
    batches={"eager": (4, 8), "graph": (4,), "compiled": (4,)},
    compiler="eager",
    head=TOY,
    large_batch=FULL.large_batch,
    precision="32",
    repeats=2,
    loader={160: 8},
    loader_workers=(1,),
    embed=(("test_efficientnet", 32),),
    embed_images=16,
    embed_batch=8,
    queries=40,
    references=300,
    compared=20,
    trained={"backbone": "test_efficientnet", "dimensions": 16},
    epochs=3,
    pictures=16,
)
