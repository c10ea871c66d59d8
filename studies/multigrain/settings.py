"""Settings of MultiGrain's objective and of its parts; each class builds its objective."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from image_copies.models.objectives.settings import ObjectiveSettings, PairwiseSettings

if TYPE_CHECKING:
    from .objective import MarginLoss, MultiGrain, Softmax


class DistanceWeightedSettings(ObjectiveSettings):
    """The base of objectives with the margin loss and its distance-weighted sampling.

    Attributes:
        margin: α, half the gap between the distances of positive and negative pairs.
        beta: Initial value of β, the learnt boundary distance between positive and negative pairs.
        beta_learning_rate: Learning rate of β.
        cutoff: Distances below this count as this in the sampling (C.-Y. Wu et al.); None for no cap.
        farthest: No negative beyond this distance is drawn if the anchor has a nearer one; None for no limit.
    """

    margin: float = Field(0.2, ge=0, le=2)
    beta: float = Field(1.2, gt=0, le=2)
    beta_learning_rate: float = Field(0.1, ge=0)
    cutoff: float | None = Field(0.5, gt=0, lt=2)
    farthest: float | None = Field(1.4, gt=0, le=2)

    def build_margin(self, seed: int) -> "MarginLoss":
        """Build the margin loss."""
        from .objective import MarginLoss

        return MarginLoss(
            **self.model_dump(include=set(DistanceWeightedSettings.model_fields) - {"kind"}), seed=seed
        )


class MarginSettings(DistanceWeightedSettings, PairwiseSettings):
    """Margin loss with distance-weighted sampling (MultiGrain, section 3; C.-Y. Wu et al., 2017)."""

    kind: Literal["margin"] = "margin"

    def build(self, dimensions: int, classes: int, seed: int) -> "MarginLoss":
        """Build the objective; see `ObjectiveSettings.build`."""
        return self.build_margin(seed)


class SoftmaxSettings(ObjectiveSettings):
    """Cross entropy of a linear classifier over the classes."""

    kind: Literal["softmax"] = "softmax"

    def build(self, dimensions: int, classes: int, seed: int) -> "Softmax":
        """Build the objective; see `ObjectiveSettings.build`."""
        from .objective import Softmax

        return Softmax(dimensions, classes)


class MultiGrainSettings(DistanceWeightedSettings):
    """λ · cross entropy + (1 − λ) · margin loss between copies of one image (MultiGrain, equation 5).

    Attributes:
        weight: λ, 0…1.
    """

    kind: Literal["multigrain"] = "multigrain"
    weight: float = Field(0.5, ge=0, le=1)

    def build(self, dimensions: int, classes: int, seed: int) -> "MultiGrain":
        """Build the objective; see `ObjectiveSettings.build`."""
        from .objective import MultiGrain

        softmax = SoftmaxSettings().build(dimensions, classes, seed) if self.weight > 0 else None
        return MultiGrain(self.weight, softmax, self.build_margin(seed))

    @property
    def positives(self) -> Literal["class", "instance"] | None:
        """Copies of one image, if the margin loss has a weight above 0."""
        return "instance" if self.weight < 1 else None
