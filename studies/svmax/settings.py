"""Settings of SVMax, and of the losses that it is added to; each class builds what it describes."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from image_copies.models.objectives.settings import PairwiseSettings, RegularizerSettings

if TYPE_CHECKING:
    from image_copies.models.objectives.base import Objective
    from image_copies.models.objectives.pairs import PairObjective

    from .objective import Svmax


class ContrastiveSettings(PairwiseSettings):
    """Contrastive loss on distances of unit vectors, 0…2: the mean over positive pairs plus that over negative ones.

    Attributes:
        positive_margin: Positive pairs contribute only beyond this distance.
        negative_margin: Negative pairs contribute only below this distance.
    """

    kind: Literal["contrastive"] = "contrastive"
    positive_margin: float = Field(0.0, ge=0, lt=2)
    negative_margin: float = Field(1.0, gt=0, le=2)

    def build(self, dimensions: int, classes: int, seed: int) -> "PairObjective":
        """Build the objective; see `ObjectiveSettings.build`."""
        from pytorch_metric_learning.losses import ContrastiveLoss
        from pytorch_metric_learning.reducers import MeanReducer

        from image_copies.models.objectives.pairs import PairObjective

        return PairObjective(
            ContrastiveLoss(self.positive_margin, self.negative_margin, reducer=MeanReducer())
        )


class TripletSettings(PairwiseSettings):
    """Triplet loss on distances of unit vectors, 0…2.

    Attributes:
        margin: How much farther from the anchor a negative must be than a positive.
        reduction: "mean" over the triplets that violate the margin; "sum" over all (IDEAL, equation 2).
    """

    kind: Literal["triplet"] = "triplet"
    margin: float = Field(0.2, gt=0, le=2)
    reduction: Literal["mean", "sum"] = "mean"

    def build(self, dimensions: int, classes: int, seed: int) -> "PairObjective":
        """Build the objective; see `ObjectiveSettings.build`."""
        from pytorch_metric_learning.losses import TripletMarginLoss
        from pytorch_metric_learning.reducers import AvgNonZeroReducer, SumReducer

        from image_copies.models.objectives.pairs import PairObjective

        reducer = SumReducer() if self.reduction == "sum" else AvgNonZeroReducer()
        return PairObjective(TripletMarginLoss(self.margin, reducer=reducer))


class NPairSettings(PairwiseSettings):
    """N-pair loss (SVMax, equation A1).

    Attributes:
        normalize: Whether embeddings are normalised first; the paper's bounds do not hold for raw ones.
    """

    kind: Literal["npair"] = "npair"
    normalize: bool = True

    def build(self, dimensions: int, classes: int, seed: int) -> "PairObjective":
        """Build the objective; see `ObjectiveSettings.build`."""
        from image_copies.models.objectives.pairs import PairObjective

        from .objective import NPairLoss

        return PairObjective(NPairLoss(), self.normalize)


class InfoNceSettings(PairwiseSettings):
    """InfoNCE, also NT-Xent, with SSCD's temperature: the right copy among all other images of the batch (equation 1)."""

    kind: Literal["infonce"] = "infonce"

    def build(self, dimensions: int, classes: int, seed: int) -> "PairObjective":
        """Build the objective; see `ObjectiveSettings.build`."""
        from image_copies.models.objectives.pairs import PairObjective

        from .objective import NPairLoss

        return PairObjective(NPairLoss(temperature=0.05))


class AngularSettings(PairwiseSettings):
    """Angular loss (SVMax, equations A3 and A4).

    Attributes:
        angle: α in degrees.
    """

    kind: Literal["angular"] = "angular"
    angle: float = Field(45.0, gt=0, lt=90)

    def build(self, dimensions: int, classes: int, seed: int) -> "PairObjective":
        """Build the objective; see `ObjectiveSettings.build`."""
        from pytorch_metric_learning.losses import AngularLoss

        from image_copies.models.objectives.pairs import PairObjective

        return PairObjective(AngularLoss(self.angle))


class SvmaxSettings(RegularizerSettings):
    """The SVMax regulariser, which is added to any objective (SVMax, equations A7 and A8).

    Attributes:
        form: "bounded", λ exp((U − s) / (U − L)), "unbounded", −λ s, or "spread_out", the paper's baseline.
        weight: λ.
        normalize: Whether rows are made unit vectors first; None for yes, but in the unbounded form.
    """

    form: Literal["bounded", "unbounded", "spread_out"] = "bounded"
    weight: float = Field(1.0, ge=0)
    normalize: bool | None = None

    @property
    def of_unit_rows(self) -> bool:
        """Whether the regulariser is computed from unit rows."""
        return self.form != "unbounded" if self.normalize is None else self.normalize

    def add_to(self, objective: "Objective") -> "Svmax":
        """Return the objective with the regulariser."""
        from .objective import Svmax

        return Svmax(objective, form=self.form, weight=self.weight, of_unit_rows=self.of_unit_rows)
