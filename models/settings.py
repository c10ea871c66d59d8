"""What a recipe may say about one model: the descriptor, its objective, how and in which stages it learns."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from augmentations.settings import Family
from data.settings import Settings
from models.objectives.settings import MultiGrainSettings, PaperObjectiveSettings, SvmaxSettings

SMALLEST_IMAGE, LARGEST_IMAGE = 16, 8192  # pixels a side
PAIRWISE = ("contrastive", "triplet", "multi_similarity", "npair", "angular", "margin")


class DescriptorSettings(Settings):
    """timm backbone → GeM → linear without bias → L2 (ISC2021 paper, 2.2).

    backbone: any timm name, or `hf-hub:owner/name`. weights: "none", "pretrained" (timm's own) or a local file.
    dimensions: of the vector; null leaves the linear layer out, the vector is the pooled one (MultiGrain).
    domains: four rotations, each with its own quarter of the linear layer ("split", IDEAL), or all through one layer of a
    quarter of the dimensions ("shared", to compare). whiten: PCA whitening learnt on unlabelled
    training images when training ends (MultiGrain).
    """

    backbone: str
    weights: str = "none"
    dimensions: int | None = Field(256, ge=2, le=65_536)
    pooling_exponent: float = Field(3.0, gt=0)
    train_pooling_exponent: bool = True
    domains: Literal["split", "shared"] | None = None
    whiten: bool = False

    @model_validator(mode="after")
    def _domains_divide_the_vector(self) -> "DescriptorSettings":
        if self.domains and (self.dimensions is None or self.dimensions % 4 or self.dimensions < 8):
            needed = "a multiple of 4, at least 8"
            raise ValueError(f"domains: the 4 rotations share the dimensions, which must be {needed}; found {self.dimensions}")
        if self.domains and self.whiten:
            raise ValueError("whiten goes with one head: leave domains out, or leave whitening to step 03 (eigen_power)")
        return self


class ArcFaceSettings(Settings):
    """ArcFace: margin in radians, scale of the logits; classes are compared `chunk` at a time.

    negatives: the share of classes drawn at random that each step compares with (an approximation); without it all.
    """

    kind: Literal["arcface"] = "arcface"
    margin: float = Field(0.4, ge=0, lt=3.1416)
    scale: float = Field(40.0, gt=0)
    chunk: int = Field(16_384, ge=1)
    negatives: float | None = Field(None, gt=0, lt=1)


class SamplingSettings(Settings):
    """Which images make up a batch. epoch: every image once an epoch. repeated: batch_size / copies images, each in `copies`
    edited versions (MultiGrain, 3.3). pk: batch_size / per_class classes, `per_class` images of each, again edited where a class
    has fewer (IDEAL, 4.1).
    """

    kind: Literal["epoch", "repeated", "pk"] = "epoch"
    copies: int = Field(3, ge=2)
    per_class: int = Field(4, ge=2)

    @model_validator(mode="after")
    def _keys_of_the_kind(self) -> "SamplingSettings":
        for key, kind in (("copies", "repeated"), ("per_class", "pk")):
            if key in self.model_fields_set and self.kind != kind:
                raise ValueError(f"{key} goes with kind {kind}, not with kind {self.kind}")
        return self


class OptimizerSettings(Settings):
    """class_kind: of the objective's parameters, so of the class matrix: "same"; or, where Adam's two further matrices are too
    much, "adafactor" (one float per class and per dimension; each process has statistics of its own part) or "plain_sgd"
    (nothing). accumulate: batches per step.
    """

    kind: Literal["adam", "sgd"] = "adam"
    class_kind: Literal["same", "adafactor", "plain_sgd"] = "same"
    accumulate: int = Field(1, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    class_learning_rate: float | None = Field(None, gt=0, description="of the class matrix; without it learning_rate")
    weight_decay: float = Field(0.0, ge=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD")
    clip_norm: float = Field(1.0, gt=0)


class SchedulerSettings(Settings):
    """plateau: × factor after `patience` epochs without a lower loss. warmup_cosine: linear rise, cosine to `floor`.
    steps: × factor at each of the epochs `milestones`.
    """

    kind: Literal["constant", "plateau", "warmup_cosine", "steps"] = "plateau"
    milestones: tuple[int, ...] = (30, 60, 90)
    factor: float = Field(0.9, gt=0, lt=1)
    patience: int = Field(2, ge=0)
    warmup_epochs: float = Field(4, ge=0)
    decay_epochs: float = Field(100, gt=0)
    floor: float = Field(1e-3, ge=0, le=1)


class StageSettings(Settings):
    """One drip stage; it ends at `stop_loss`, when the loss has not fallen by 1 % for `plateau_epochs`, after `epochs` or after
    `minutes`, whichever comes first.

    classes: how many (all where there are fewer, or where it is left out). intensity: of the edits, 0…1, rising linearly over
    `epochs` to `last_intensity` where that is given. image_size: pixels. Minutes include the rebuild of the class matrix.
    validate_minutes: time between validations within the stage; without it only its end is validated.
    """

    classes: int | None = Field(None, ge=2)
    intensity: float = Field(0.5, ge=0, le=1)
    last_intensity: float | None = Field(None, ge=0, le=1)
    image_size: int = Field(160, ge=SMALLEST_IMAGE, le=LARGEST_IMAGE)
    batch_size: int = Field(64, ge=2)
    epochs: int = Field(100, ge=1)
    minutes: float | None = Field(None, gt=0)
    stop_loss: float | None = Field(None, gt=0)
    plateau_epochs: int | None = Field(None, ge=1)
    validate_minutes: float | None = Field(None, gt=0)
    learning_rate_factor: float = Field(1.0, gt=0)


class EmbeddingSettings(Settings):
    """How images are embedded. image_size: pixels, without it the last stage's. scales: the image is embedded at each of
    these multiples of image_size; flip: also mirrored; the vector is the unit mean of all. pooling_exponent: GeM's p here.
    """

    image_size: int | None = Field(None, ge=SMALLEST_IMAGE, le=LARGEST_IMAGE)
    scales: tuple[float, ...] = Field((1.0,), min_length=1)
    batch_size: int = Field(128, ge=1)
    flip: bool = False
    pooling_exponent: float | None = Field(None, gt=0)
    precision: Literal["32", "bf16", "16"] = "32"
    workers: int = Field(2, ge=0)
    shard: int = Field(50_000, ge=1, description="images per shard: what a killed run loses at most")

    def what_makes_vectors(self) -> dict[str, Any]:
        """The settings that vectors depend on: without the number of workers and the sizes of batches and shards."""
        return self.model_dump(mode="json", exclude={"workers", "batch_size", "shard"})


class ModelSettings(Settings):
    descriptor: DescriptorSettings
    objective: Annotated[ArcFaceSettings | PaperObjectiveSettings, Field(discriminator="kind")] = ArcFaceSettings()
    svmax: SvmaxSettings | None = None
    turn: bool = False  # every training image by a random quarter turn: rotation as augmentation, not as domains
    sampling: SamplingSettings = SamplingSettings()
    edits: Family = "query"
    extra_edits: bool = False
    optimizer: OptimizerSettings = OptimizerSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    precision: Literal["32", "bf16", "16"] = "32"
    compile: bool = False  # torch.compile: faster steps on a GPU after some minutes of compiling at each stage
    workers: int = Field(2, ge=0)
    cache: Literal["pixels", "jpeg"] = "pixels"  # of resized images on disk: jpeg takes a tenth of the room
    stages: tuple[StageSettings, ...] = Field(min_length=1)
    embedding: EmbeddingSettings | None = None  # of this model, instead of the recipe's

    def what_trains(self) -> dict[str, Any]:
        """The settings that training depends on: without how the trained model embeds and how many workers feed it."""
        return self.model_copy(update={"embedding": None}).model_dump(mode="json", exclude={"workers"})

    @model_validator(mode="after")
    def _classes_never_shrink(self) -> "ModelSettings":
        counts = [stage.classes or 2**62 for stage in self.stages]
        if counts != sorted(counts):
            raise ValueError("stages must not have fewer classes than the stage before: a class keeps its index")
        return self

    @model_validator(mode="after")
    def _positive_pairs_in_every_batch(self) -> "ModelSettings":
        kind, sampling = self.objective.kind, self.sampling
        compares = kind in PAIRWISE or (isinstance(self.objective, MultiGrainSettings) and self.objective.weight < 1)
        if compares and sampling.kind == "epoch":
            groups = "repeated" if kind == "multigrain" else "pk or repeated"
            raise ValueError(f"objective {kind} compares images of one class: set sampling.kind to {groups}")
        if isinstance(self.objective, MultiGrainSettings) and self.objective.weight < 1 and sampling.kind == "pk":
            raise ValueError("multigrain compares copies of one image: set sampling.kind to repeated, or use objective margin")
        if self.descriptor.domains and kind not in PAIRWISE:
            raise ValueError(f"domains are for objectives that compare pairs ({', '.join(PAIRWISE)}), not {kind}")
        if self.descriptor.domains and self.turn:
            raise ValueError("turn would mix the rotations that domains keep apart: use one of them")
        group = {"epoch": 1, "repeated": sampling.copies, "pk": sampling.per_class}[sampling.kind]
        for stage in self.stages:
            if stage.batch_size < 2 * group:
                raise ValueError(f"batch_size {stage.batch_size} must hold two groups of {group} images at least (sampling)")
            if sampling.kind == "pk" and stage.batch_size % group:
                raise ValueError(f"batch_size {stage.batch_size} is no multiple of the {group} images of each class (sampling)")
        return self

    @model_validator(mode="after")
    def _one_gradient_scaler(self) -> "ModelSettings":
        if self.precision == "16" and self.optimizer.class_kind != "same":
            raise ValueError(
                "optimizer.class_kind other than same needs precision 32 or bf16: fp16 scales one optimiser's gradients"
            )
        return self


LOCAL_WEIGHTS = (".pth", ".pt", ".safetensors")


def is_local(weights: str) -> bool:
    """Whether `weights` names a file rather than "none" or "pretrained"."""
    return Path(weights).suffix in LOCAL_WEIGHTS
