"""Settings of a training: batches, optimisers, mixed images, learning rates, stages."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from image_copies.augmentations.settings import Table
from image_copies.data.settings import Settings

from ..network.settings import MAX_IMAGE_SIZE, MIN_IMAGE_SIZE


class SamplingSettings(Settings):
    """Which images make up a batch.

    Attributes:
        kind: "epoch", every image once per epoch; "repeated", each image in `copies` edited versions (MultiGrain,
            section 3.3); "pk", `per_class` images of each class of a batch (IDEAL, section 5.1).
        copies: Edited versions of each image; only with "repeated".
        per_class: Images of each class; only with "pk".
        iterations: Batches in an epoch; None for one pass over the images.
    """

    kind: Literal["epoch", "repeated", "pk"] = "epoch"
    copies: int = Field(3, ge=2)
    per_class: int = Field(4, ge=2)
    iterations: int | None = Field(None, ge=1)

    @property
    def group(self) -> int:
        """Images per group in a batch: the copies of one image, the images of one class, or 1."""
        return {"epoch": 1, "repeated": self.copies, "pk": self.per_class}[self.kind]

    @model_validator(mode="after")
    def _keys_of_the_kind(self) -> "SamplingSettings":
        for key, kind in (("copies", "repeated"), ("per_class", "pk")):
            if self.kind != kind and getattr(self, key) != getattr(self.with_defaults(key), key):
                raise ValueError(f"{key} goes with kind {kind}, not with kind {self.kind}")
        return self


class OptimizerSettings(Settings):
    """The optimisers of descriptor and objective.

    Attributes:
        kind: Optimiser of the descriptor; "muon" (K. Jordan, 2024) needs a class_kind.
        class_kind: Optimiser of the class matrix: "same", "adam", "adafactor" (one float per class and per dimension)
            or "plain_sgd" (no state).
        accumulate: Batches whose gradients are accumulated for one step.
        learning_rate: Learning rate of the descriptor.
        backbone_learning_rate: Learning rate of the backbone alone; None for learning_rate.
        class_learning_rate: Learning rate of the class matrix; None for learning_rate.
        weight_decay: Weight decay of the descriptor and of a linear classifier.
        momentum: Momentum of "sgd".
        clip_norm: Maximum norm of the gradient of all parameters together; None for no clipping.
    """

    kind: Literal["adam", "muon", "sgd"] = "adam"
    class_kind: Literal["same", "adam", "adafactor", "plain_sgd"] = "same"
    accumulate: int = Field(1, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    backbone_learning_rate: float | None = Field(None, gt=0)
    class_learning_rate: float | None = Field(None, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    clip_norm: float | None = Field(1.0, gt=0)

    @model_validator(mode="after")
    def _rows_are_no_map(self) -> "OptimizerSettings":
        if self.kind == "muon" and self.class_kind == "same":
            raise ValueError(
                "kind muon is for the descriptor: the rows of a class matrix are points, set class_kind, such as adam"
            )
        return self


class MixSettings(Settings):
    """Images that show two of a batch's images at once; the loss is that of both, weighted by how much of each there is.

    Attributes:
        kind: "mixup", the weighted mean of both.
        probability: Share of the batches that are mixed.
        alpha: λ, how much is the image's own, is drawn from Beta(α, α).
    """

    kind: Literal["mixup"]
    probability: float = Field(0.5, gt=0, le=1)
    alpha: float = Field(1.0, gt=0)


class SchedulerSettings(Settings):
    """How the learning rate changes.

    Attributes:
        kind: "constant"; "plateau", × factor after `patience` epochs without a lower loss; "warmup_cosine", linear rise, then
            cosine down to `floor`; "steps", × factor at each of the epochs `milestones`.
        milestones: Epochs at which the rate is multiplied by `factor`, for "steps".
        factor: Factor of the learning rate, 0…1, for "plateau" and "steps".
        patience: Epochs without a lower loss before the rate is reduced, for "plateau".
        warmup_epochs: Length of the linear warm-up in epochs, for "warmup_cosine".
        decay_epochs: Length of the cosine decay in epochs, for "warmup_cosine".
        floor: Final learning rate as a fraction of the initial one, for "warmup_cosine".
        warmup_steps: Steps at the beginning of each stage over which all rates rise linearly, with any kind.
    """

    kind: Literal["constant", "plateau", "warmup_cosine", "steps"] = "plateau"
    milestones: tuple[int, ...] = (30, 60, 90)
    factor: float = Field(0.9, gt=0, lt=1)
    patience: int = Field(2, ge=0)
    warmup_epochs: float = Field(4, ge=0)
    decay_epochs: float = Field(100, gt=0)
    floor: float = Field(1e-3, ge=0, le=1)
    warmup_steps: int = Field(0, ge=0)


class StageSettings(Settings):
    """One drip stage; it ends at `stop_loss`, on a plateau, or after `epochs`, whichever comes first.

    Attributes:
        classes: Number of classes; None, or more than there are, for all.
        extra_classes: How many of `classes` are of the recipe's extra_classes.
        intensity: Intensity of the edits, 0…1.
        image_size: Input size in pixels.
        batch_size: Images per batch, over all processes.
        epochs: Maximum number of epochs.
        iterations: Batches per epoch of this stage; None for `sampling.iterations`.
        stop_loss: The stage ends when an epoch's mean loss is below this; None for no such limit.
        plateau_epochs: The stage ends when the loss has not fallen by 1 % for this many epochs; None for never.
        learning_rate_factor: Factor of all learning rates in this stage.
        last_learning_rate_factor: Factor to which the rates fall by a cosine over the stage (scheduler kind constant);
            None for constant rates.
        centroid_edits: Edited images that, besides the clean one, are averaged for each row of the class matrix.
        edits: Table of this stage's edits; None for the model's.
        edit_probabilities: Probabilities at intensity 1 by edit name, 0 for none; None for the tables' own.
    """

    classes: int | None = Field(None, ge=2)
    extra_classes: int = Field(0, ge=0)
    intensity: float = Field(0.5, ge=0, le=1)
    image_size: int = Field(160, ge=MIN_IMAGE_SIZE, le=MAX_IMAGE_SIZE)
    batch_size: int = Field(64, ge=2)
    epochs: int = Field(100, ge=1)
    iterations: int | None = Field(None, ge=1)
    stop_loss: float | None = Field(None, gt=0)
    plateau_epochs: int | None = Field(None, ge=1)
    learning_rate_factor: float = Field(1.0, gt=0)
    last_learning_rate_factor: float | None = Field(None, gt=0)
    centroid_edits: int = Field(4, ge=0)
    edits: Table | None = None
    edit_probabilities: dict[str, Annotated[float, Field(ge=0, le=1)]] | None = None
