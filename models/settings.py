"""Settings of one model in a recipe, and how it embeds."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from image_copies.augmentations.settings import AugmentationSettings, EditFamily, Table
from image_copies.data.settings import Settings
from image_copies.models.network.settings import (
    MAX_IMAGE_SIZE,
    MIN_IMAGE_SIZE,
    DescriptorSettings,
    HandmadeSettings,
    find_file,
    weights_path,
)
from image_copies.models.objectives.settings import (
    PAIRWISE,
    ArcFaceSettings,
    DistillationSettings,
    KoleoSettings,
    ObjectiveChoice,
    SvmaxSettings,
)
from image_copies.models.training.settings import (
    MixSettings,
    OptimizerSettings,
    SamplingSettings,
    SchedulerSettings,
    StageSettings,
)

MIXABLE = ("arcface", "softmax", "infonce")  # objectives that images of two classes at once go with


class EmbeddingSettings(Settings):
    """How images are embedded.

    Attributes:
        image_size: Input size in pixels; None for that of the last stage.
        scales: Each image is embedded at each of these multiples of image_size; the vector is the unit mean over them.
        batch_size: Images per batch.
        flip: Whether the mean includes the mirrored image.
        pooling_exponent: GeM's p; None for the trained one.
        precision: "32", or the autocast precision.
        workers: Data-loading workers; None for this process's share of the cores.
        shard: Images per shard, the most that a killed run loses.
        whiten: Whether a whitening descriptor whitens its vectors. Where step 03 is to reduce them it should not: PCA comes
            first, because after whitening all variances are equal and it has nothing to choose by.
        decode_on: "device" decodes plain JPEG files on an NVIDIA GPU in step 02 (nvJPEG, by torchvision) and resizes them there;
            pixels differ by a few levels, so that vectors made otherwise are stale. "cpu" leaves them to the workers.
    """

    image_size: int | None = Field(None, ge=MIN_IMAGE_SIZE, le=MAX_IMAGE_SIZE)
    scales: tuple[Annotated[float, Field(gt=0, le=16)], ...] = Field((1.0,), min_length=1)
    batch_size: int = Field(128, ge=1)
    flip: bool = False
    pooling_exponent: float | None = Field(None, gt=0)
    precision: Literal["32", "bf16", "16"] = "32"
    workers: int | None = Field(None, ge=0)
    shard: int = Field(50_000, ge=1)
    whiten: bool = True
    decode_on: Literal["cpu", "device"] = "cpu"

    def what_makes_vectors(self) -> "EmbeddingSettings":
        """The settings that vectors depend on: without the number of workers and the sizes of batches and shards."""
        return self.with_defaults("workers", "batch_size", "shard")

    def what_makes_shards(self) -> str:
        """The settings that the shards of a stopped run depend on, as JSON: all but the number of workers."""
        return self.with_defaults("workers").model_dump_json(exclude_defaults=True)

    def on_cpu(self) -> "EmbeddingSettings":
        """Return the same settings with images decoded on the CPU, as everything but step 02 does."""
        return self.with_defaults("decode_on")


class HandmadeModelSettings(HandmadeSettings):
    """A handmade model in a recipe: it has no stages and no objective.

    Attributes:
        embedding: How this model embeds; None for the recipe's settings.
    """

    embedding: EmbeddingSettings | None = None

    @property
    def stages(self) -> tuple[()]:
        """No stages; its checkpoint is that of stage 0."""
        return ()

    @property
    def weights_file(self) -> None:
        """None: there are no initial weights."""
        return None

    def what_trains(self) -> "HandmadeModelSettings":
        """The settings that its whitening depends on."""
        return self.with_defaults("embedding")

    def descriptor_settings(self) -> HandmadeSettings:
        """Return the settings of the descriptor alone."""
        return HandmadeSettings(kind=self.kind, dimensions=self.dimensions)


class FileModelSettings(Settings):
    """A model of the recipe that is a file: a checkpoint of this project, or a published descriptor (network/published.py).

    Attributes:
        kind: "file".
        file: Where it is; "shipped" is the descriptor that ships with the project.
        background: Whether the training vectors that a joined descriptor brings along stand beside those of the run's training
            images, for PCA and query normalisation; only where it is the run's only model.
        embedding: Of this model; None for the recipe's.
    """

    kind: Literal["file"]
    file: Path
    background: bool = False
    embedding: EmbeddingSettings | None = None

    @property
    def stages(self) -> tuple[()]:
        """None: its checkpoint is that of stage 0."""
        return ()

    @property
    def weights_file(self) -> Path:
        """The file itself."""
        return find_file(self.file)

    def what_trains(self) -> dict[str, Any]:
        """The settings that its checkpoint depends on, beside the file's content."""
        return {"kind": self.kind}


UntrainedModelSettings = HandmadeModelSettings | FileModelSettings


class ModelSettings(Settings):
    """One model of the recipe.

    Attributes:
        descriptor: The network.
        objective: The training objective.
        svmax: Regulariser added to the objective; None for none.
        koleo: Entropy term added to the objective; None for none.
        mix: Images that show two of the batch at once; None for none.
        weight_average: Decay, 0…1, of an exponential moving average of the weights over each stage's steps, which is validated,
            embeds, and begins the next stage; None for the last weights.
        turn: Whether every training image is rotated by a random multiple of 90°: rotation as augmentation, not as domains.
        sampling: Which images make up a batch.
        edits: Table of edits.
        extra_edits: Whether edits beyond the paper's are also drawn.
        teacher: File of a descriptor, or "shipped", whose vectors of the clean training images are the class rows of stages that
            say so, or what `distillation` compares with.
        distillation: Term added to the objective in every stage, which compares with the teacher's vectors; None for none.
        without_edits: Families of edits that are left out, so that queries made with them measure what the others teach; None for
            none.
        optimizer: The optimisers.
        scheduler: The learning-rate schedule.
        precision: "32", or the mixed precision of training.
        compile: Whether to use torch.compile: faster steps on a GPU after some minutes of compilation per stage.
        deterministic: Whether to use only algorithms that give identical results in every run on the same machine; slower.
        workers: Data-loading workers, which edit images; None for this process's share of the cores.
        cache: Format of the resized images on disk; "jpeg" takes a tenth of the space of "pixels".
        aspect: Shape in which training images are edited: "own", as queries are, or "square".
        stages: Drip stages, in order.
        embedding: How this model embeds; None for the recipe's settings.
        whitening_images: Folder of unlabelled images on which descriptor.whiten is fitted (MultiGrain uses 20,000 of YFCC100M);
            None for the training images.
    """

    descriptor: DescriptorSettings
    objective: ObjectiveChoice = ArcFaceSettings()
    svmax: SvmaxSettings | None = None
    koleo: KoleoSettings | None = None
    mix: MixSettings | None = None
    weight_average: float | None = Field(None, gt=0, lt=1)
    turn: bool = False
    sampling: SamplingSettings = SamplingSettings()
    edits: Table = "query"
    extra_edits: bool = False
    teacher: Path | None = None
    distillation: DistillationSettings | None = None
    without_edits: tuple[EditFamily, ...] | None = None
    optimizer: OptimizerSettings = OptimizerSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    precision: Literal["32", "bf16", "16"] = "32"
    compile: bool = False
    deterministic: bool = False
    workers: int | None = Field(None, ge=0)
    cache: Literal["pixels", "jpeg"] = "pixels"
    aspect: Literal["own", "square"] = "own"
    stages: tuple[StageSettings, ...] = Field(min_length=1)
    embedding: EmbeddingSettings | None = None
    whitening_images: Path | None = None

    @property
    def weights_file(self) -> Path | None:
        """The local weights file that training starts from; None if there is none."""
        return weights_path(self.descriptor.weights)[0]

    @property
    def teacher_file(self) -> Path | None:
        """The teacher's file; None without a teacher."""
        return None if self.teacher is None else find_file(self.teacher)

    @property
    def shares_teachers_space(self) -> bool:
        """Whether vectors are compared with the teacher's, which then have as many dimensions."""
        aligned = self.distillation is not None and self.distillation.kind == "vectors"
        return aligned or any(stage.class_rows == "teacher" for stage in self.stages)

    def edits_of(self, stage: StageSettings, intensity: float) -> AugmentationSettings:
        """Return the settings of a stage's edits at an intensity, 0…1."""
        return AugmentationSettings(
            family=self.edits,
            intensity=intensity,
            extra=self.extra_edits,
            probabilities=stage.edit_probabilities,
            without=self.without_edits,
        )

    def what_trains(self) -> "ModelSettings":
        """The settings that training depends on: without how the model embeds, the number of workers, and `deterministic`."""
        return self.with_defaults("embedding", "workers", "deterministic")

    def iterations_of(self, stage: StageSettings) -> int | None:
        """Batches in an epoch of this stage; None where an epoch is one pass over its images."""
        return self.sampling.iterations if stage.iterations is None else stage.iterations

    @model_validator(mode="after")
    def _classes_never_shrink(self) -> "ModelSettings":
        counts = [stage.classes or 2**62 for stage in self.stages]
        if counts != sorted(counts):
            raise ValueError("stages must not have fewer classes than the stage before: a class keeps its index")
        return self

    @model_validator(mode="after")
    def _a_teacher_for_what_needs_one(self) -> "ModelSettings":
        taught = any(stage.class_rows == "teacher" for stage in self.stages)
        if self.teacher is None and (taught or self.distillation):
            needing = "distillation" if self.distillation else "class_rows: teacher"
            raise ValueError(f"{needing} needs a teacher: name the file of a descriptor with teacher")
        if self.teacher is not None and not (taught or self.distillation):
            raise ValueError(
                "nothing learns from the teacher: add distillation, or class_rows: teacher to a stage, or leave teacher out"
            )
        if taught and self.objective.kind != "arcface":
            raise ValueError(f"class_rows: teacher is for objective arcface, not for {self.objective.kind}")
        return self

    @model_validator(mode="after")
    def _one_schedule(self) -> "ModelSettings":
        if self.scheduler.kind != "constant" and any(stage.last_learning_rate_factor for stage in self.stages):
            raise ValueError(f"last_learning_rate_factor goes with scheduler kind constant, not with {self.scheduler.kind}")
        return self

    @model_validator(mode="after")
    def _positive_pairs_in_every_batch(self) -> "ModelSettings":
        kind, positives, sampling = self.objective.kind, self.objective.positives, self.sampling
        if positives and sampling.kind == "epoch":
            groups = "repeated" if positives == "instance" else "pk or repeated"
            raise ValueError(f"objective {kind} compares images of one class: set sampling.kind to {groups}")
        if positives == "instance" and sampling.kind == "pk":
            raise ValueError("multigrain compares copies of one image: set sampling.kind to repeated, or use objective margin")
        if self.descriptor.domains and positives != "class":
            raise ValueError(f"domains are for objectives that compare pairs ({', '.join(PAIRWISE)}), not {kind}")
        if self.descriptor.domains and getattr(self.objective, "memory", None):
            raise ValueError("objective.memory would hold all domains' embeddings together: leave memory or domains out")
        if self.mix and kind not in MIXABLE:
            raise ValueError(f"mix goes with the objectives {', '.join(MIXABLE)}, not with {kind}")
        if self.mix and getattr(self.objective, "memory", None):
            raise ValueError("mix would put mixed images into objective.memory: leave one of them out")
        if self.descriptor.domains and self.distillation:
            raise ValueError(
                "distillation would compare each domain's part of a vector with the teacher's whole one: leave distillation or "
                "domains out"
            )
        if self.descriptor.domains and self.turn:
            raise ValueError("turn would mix the rotations that domains keep apart: use one of them")
        group = sampling.group
        for stage in self.stages:
            if stage.batch_size < 2 * group:
                raise ValueError(f"batch_size {stage.batch_size} must hold two groups of {group} images at least (sampling)")
            if sampling.kind == "pk" and stage.batch_size % group:
                raise ValueError(f"batch_size {stage.batch_size} is no multiple of the {group} images of each class (sampling)")
        return self

    @model_validator(mode="after")
    def _rows_for_a_sparse_optimizer(self) -> "ModelSettings":
        if self.optimizer.class_kind == "sparse_adam" and getattr(self.objective, "negatives", None) is None:
            raise ValueError(
                "optimizer.class_kind sparse_adam moves the rows that a step compares: set objective.negatives (arcface), or "
                "another class_kind"
            )
        return self

    @model_validator(mode="after")
    def _one_gradient_scaler(self) -> "ModelSettings":
        if self.precision == "16" and self.optimizer.class_kind != "same":
            raise ValueError(
                "optimizer.class_kind other than same needs precision 32 or bf16: fp16 scales one optimiser's gradients"
            )
        return self
