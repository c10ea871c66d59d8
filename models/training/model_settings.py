"""The settings of one trained model in a recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from image_copies.augmentations.settings import AugmentationSettings, EditFamily, Table
from image_copies.data.settings import Place, Precision, Settings

from ..inference.settings import EmbeddingSettings
from ..network.settings import ROTATIONS, DescriptorSettings, weights_path
from ..objectives.settings import ArcFaceSettings, ObjectiveChoice, SvmaxChoice
from .settings import MixSettings, OptimizerSettings, SamplingSettings, SchedulerSettings, StageSettings

if TYPE_CHECKING:
    from ..objectives.base import Objective

MIXABLE = ("arcface", "softmax")  # objectives that images of two classes at once go with


class ModelSettings(Settings):
    """One model of the recipe.

    Attributes:
        descriptor: The network.
        objective: The training objective.
        svmax: Regulariser added to the objective.
        mix: Images that show two of the batch at once.
        turn: Whether every training image is rotated by a random multiple of 90°.
        sampling: Which images make up a batch.
        edits: Table of edits.
        extra_edits: Whether edits beyond the paper's are also drawn.
        without_edits: Families of edits that are left out.
        templates: Folder of pages that images are put into instead of AugLy's screenshots: PNG files, transparent where
            the image goes.
        optimizer: The optimisers.
        scheduler: The learning-rate schedule.
        precision: "32", or the mixed precision of training.
        compile: Whether to use torch.compile: faster steps after some minutes per stage.
        graph: "auto", a GPU repeats steps as one CUDA graph where they can be captured; "never", it does not.
        deterministic: Whether to use only algorithms that give identical results in every run on the same machine;
            slower.
        workers: Data-loading workers of all processes on a machine together; None for one on each core.
        cache: Format of the resized images on disk; "jpeg" takes a sixth of the space of "pixels".
        stages: Drip stages, in order.
        embedding: How this model embeds; None for the recipe's settings.
        whitening_images: Folder of unlabelled images on which descriptor.whiten is fitted; None for the training
            images.
    """

    background: ClassVar[bool] = False

    descriptor: DescriptorSettings
    objective: ObjectiveChoice = ArcFaceSettings()
    svmax: SvmaxChoice | None = None
    mix: MixSettings | None = None
    turn: bool = False
    sampling: SamplingSettings = SamplingSettings()
    edits: Table = "query"
    extra_edits: bool = False
    without_edits: tuple[EditFamily, ...] | None = None
    templates: Path | None = None
    optimizer: OptimizerSettings = OptimizerSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    precision: Precision = "32"
    compile: bool = False
    graph: Literal["auto", "never"] = "auto"
    deterministic: bool = False
    workers: int | None = Field(None, ge=0)
    cache: Literal["pixels", "jpeg"] = "pixels"
    stages: tuple[StageSettings, ...] = Field(min_length=1)
    embedding: EmbeddingSettings | None = None
    whitening_images: Place | None = None

    @property
    def weights_file(self) -> Path | None:
        """The local weights file that training starts from; None if there is none."""
        return weights_path(self.descriptor.weights)[0]

    def edits_of(self, stage: StageSettings) -> AugmentationSettings:
        """Return the settings of a stage's edits."""
        return AugmentationSettings(
            family=stage.edits or self.edits,
            intensity=stage.intensity,
            extra=self.extra_edits,
            probabilities=stage.edit_probabilities,
            without=self.without_edits,
            templates=None if self.templates is None else str(self.templates),
        )

    def build_objective(self, dimensions: int, classes: int, seed: int) -> "Objective":
        """Build the objective of vectors of so many dimensions, with the term added to it."""
        heads = ROTATIONS if self.descriptor.domains else 1
        objective = self.objective.build(dimensions // heads, classes, seed)
        return objective if self.svmax is None else self.svmax.add_to(objective)

    def check_files(self, made_here: Path) -> None:
        """Check that timm knows the backbone, and that weights are there, unless they lie in the folder `made_here`.

        Raises:
            UserError: It does not, or they are not.
        """
        from image_copies.augmentations.edits.overlays import read_pages

        from ..network.backbones import check_backbone
        from ..network.start import find_start

        check_backbone(self.descriptor.backbone)
        if self.templates is not None:
            read_pages(str(self.templates))
        file = self.weights_file
        is_made_here = file is not None and file.resolve().is_relative_to(made_here)
        if self.descriptor.weights not in ("none", "pretrained") and not is_made_here:
            find_start(self.descriptor.weights)

    def what_trains(self) -> "ModelSettings":
        """The settings that training depends on: without how the model embeds, `workers`, `graph` and `deterministic`."""
        return self.with_defaults("embedding", "workers", "graph", "deterministic")

    def iterations_of(self, stage: StageSettings) -> int | None:
        """Batches in an epoch of this stage; None where an epoch is one pass over its images."""
        return self.sampling.iterations if stage.iterations is None else stage.iterations

    @model_validator(mode="after")
    def _rows_are_rounded_to_bfloat16(self) -> "ModelSettings":
        if getattr(self.objective, "rounded_rows", False) and self.precision != "bf16":
            raise ValueError(f"objective.rounded_rows goes with precision bf16, not with {self.precision}")
        return self

    @model_validator(mode="after")
    def _classes_never_shrink(self) -> "ModelSettings":
        counts = [stage.classes or 2**62 for stage in self.stages]
        extra = [stage.extra_classes for stage in self.stages]
        own = [count - mixed for count, mixed in zip(counts, extra, strict=True)]
        if any(numbers != sorted(numbers) for numbers in (counts, extra, own)):
            raise ValueError(
                "stages must not have fewer classes than the stage before, of either kind: a class keeps its index"
            )
        if min(own) < 0:
            raise ValueError("extra_classes are some of a stage's classes: give no more of them")
        return self

    @model_validator(mode="after")
    def _one_schedule(self) -> "ModelSettings":
        if self.scheduler.kind != "constant" and any(
            stage.last_learning_rate_factor for stage in self.stages
        ):
            raise ValueError(
                f"last_learning_rate_factor goes with scheduler kind constant, not with {self.scheduler.kind}"
            )
        return self

    @model_validator(mode="after")
    def _positive_pairs_in_every_batch(self) -> "ModelSettings":
        kind = self.objective.kind
        positives = self.objective.positives
        sampling = self.sampling
        if positives and sampling.kind == "epoch":
            groups = "repeated" if positives == "instance" else "pk or repeated"
            raise ValueError(
                f"objective {kind} compares images of one class: set sampling.kind to {groups}"
            )
        if positives == "instance" and sampling.kind == "pk":
            raise ValueError(
                f"{kind} compares copies of one image: set sampling.kind to repeated, or use objective margin"
            )
        if self.descriptor.domains and positives != "class":
            raise ValueError(
                f"domains are for objectives that compare pairs of images of a class, not {kind}"
            )
        if self.mix and kind not in MIXABLE:
            raise ValueError(f"mix goes with the objectives {', '.join(MIXABLE)}, not with {kind}")
        if self.descriptor.domains and self.turn:
            raise ValueError("turn would mix the rotations that domains keep apart: use one of them")
        group = sampling.group
        for stage in self.stages:
            if stage.batch_size < 2 * group:
                raise ValueError(
                    f"batch_size {stage.batch_size} must hold two groups of {group} images at least (sampling)"
                )
            if sampling.kind == "pk" and stage.batch_size % group:
                raise ValueError(
                    f"batch_size {stage.batch_size} is no multiple of the {group} images of each class (sampling)"
                )
        return self

    @model_validator(mode="after")
    def _one_gradient_scaler(self) -> "ModelSettings":
        if self.precision == "16" and self.optimizer.class_kind != "same":
            raise ValueError(
                "optimizer.class_kind other than same needs precision 32 or bf16: fp16 scales one optimiser's gradients"
            )
        return self
