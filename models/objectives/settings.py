"""Settings of the objectives, with the papers' values as defaults; each class builds its objective.

Reading settings does not import torch: `build` imports the module that it needs and passes plain values to the objective.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from image_copies.data.settings import Settings

MAX_ROUNDED_SCALE = 64.0  # the sum of exp(64) over 10¹⁰ classes is below float32's end

if TYPE_CHECKING:
    from .arcface import ArcFace
    from .base import Objective
    from .margin import MarginLoss
    from .multigrain import MultiGrain, Softmax
    from .pairs import PairObjective


class ObjectiveSettings(Settings):
    """The base of every objective's settings.

    Attributes:
        kind: Name of the objective in a recipe.
    """

    kind: str

    def build(self, dimensions: int, classes: int, seed: int) -> "Objective":
        """Build the objective, of embeddings [n, dimensions]; `seed` is that of its initialisation and random draws."""
        raise NotImplementedError

    @property
    def positives(self) -> Literal["class", "instance"] | None:
        """What the two images of a positive pair have in common; None if the objective compares no pairs."""
        return None


class PairwiseSettings(ObjectiveSettings):
    """The base of objectives that compare pairs of images of one class; only these go with domains (IDEAL)."""

    @property
    def positives(self) -> Literal["class", "instance"] | None:
        """Images of one class."""
        return "class"


class ArcFaceSettings(ObjectiveSettings):
    """Softmax over all classes with an additive angular margin (J. Deng et al., ArcFace, 2019).

    Attributes:
        margin: m in radians, 0…π.
        scale: Factor s of the logits.
        chunk: Classes whose logits are computed at a time, which bounds memory; more on a GPU.
        rounded_rows: With precision bf16, round the class matrix once a step: less memory traffic, up to 1.5 × the
            matrix in memory; scale at most 64.
    """

    kind: Literal["arcface"] = "arcface"
    margin: float = Field(0.4, ge=0, lt=3.1416)
    scale: float = Field(40.0, gt=0)
    chunk: int = Field(16_384, ge=1)
    rounded_rows: bool = False

    @model_validator(mode="after")
    def _sums_stay_finite(self) -> "ArcFaceSettings":
        if self.rounded_rows and self.scale > MAX_ROUNDED_SCALE:
            raise ValueError(
                f"rounded_rows needs a scale of at most {MAX_ROUNDED_SCALE:g}, for finite sums of exp(scale)"
            )
        return self

    def build(self, dimensions: int, classes: int, seed: int) -> "ArcFace":
        """Build the objective; see `ObjectiveSettings.build`."""
        from .arcface import ArcFace

        return ArcFace(dimensions, classes, seed=seed, **self.model_dump(exclude={"kind"}))


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

        from .pairs import PairObjective

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

        from .pairs import PairObjective

        reducer = SumReducer() if self.reduction == "sum" else AvgNonZeroReducer()
        return PairObjective(TripletMarginLoss(self.margin, reducer=reducer))


class MultiSimilaritySettings(PairwiseSettings):
    """Multi-similarity loss on cosines (X. Wang et al., 2019).

    Attributes:
        alpha: α, the scale of positive pairs.
        beta: β, the scale of negative pairs.
        base: λ, the cosine from which both are measured.
        mining: ε: only pairs count that are harder than the hardest opposite pair by this; None for all pairs.
    """

    kind: Literal["multi_similarity"] = "multi_similarity"
    alpha: float = Field(2.0, gt=0)
    beta: float = Field(50.0, gt=0)
    base: float = Field(0.5, ge=-1, le=1)
    mining: float | None = Field(0.1, ge=0, le=2)

    def build(self, dimensions: int, classes: int, seed: int) -> "PairObjective":
        """Build the objective; see `ObjectiveSettings.build`."""
        from pytorch_metric_learning.losses import MultiSimilarityLoss
        from pytorch_metric_learning.miners import MultiSimilarityMiner

        from .pairs import PairObjective

        miner = None if self.mining is None else MultiSimilarityMiner(self.mining)
        return PairObjective(MultiSimilarityLoss(self.alpha, self.beta, self.base), miner=miner)


class NPairSettings(PairwiseSettings):
    """N-pair loss (SVMax, equation A1).

    Attributes:
        normalize: Whether embeddings are normalised first; the paper's bounds do not hold for raw ones.
    """

    kind: Literal["npair"] = "npair"
    normalize: bool = True

    def build(self, dimensions: int, classes: int, seed: int) -> "PairObjective":
        """Build the objective; see `ObjectiveSettings.build`."""
        from .pairs import NPairLoss, PairObjective

        return PairObjective(NPairLoss(), self.normalize)


class InfoNceSettings(PairwiseSettings):
    """InfoNCE, also NT-Xent, with SSCD's temperature: the right copy among all other images of the batch (equation 1)."""

    kind: Literal["infonce"] = "infonce"

    def build(self, dimensions: int, classes: int, seed: int) -> "PairObjective":
        """As in ObjectiveSettings."""
        from .pairs import NPairLoss, PairObjective

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

        from .pairs import PairObjective

        return PairObjective(AngularLoss(self.angle))


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
        from .margin import MarginLoss

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
        from .multigrain import Softmax

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
        from .multigrain import MultiGrain

        softmax = SoftmaxSettings().build(dimensions, classes, seed) if self.weight > 0 else None
        return MultiGrain(self.weight, softmax, self.build_margin(seed))

    @property
    def positives(self) -> Literal["class", "instance"] | None:
        """Copies of one image, if the margin loss has a weight above 0."""
        return "instance" if self.weight < 1 else None


PairSettings = (
    ContrastiveSettings
    | TripletSettings
    | MultiSimilaritySettings
    | NPairSettings
    | InfoNceSettings
    | AngularSettings
)
AnyObjectiveSettings = ArcFaceSettings | PairSettings | MarginSettings | SoftmaxSettings | MultiGrainSettings


def _name_default_kind(value: Any) -> Any:
    """Return settings of a recipe with their kind: arcface where they name none."""
    return {"kind": "arcface"} | value if isinstance(value, dict) else value


# by `kind`
ObjectiveChoice = Annotated[
    AnyObjectiveSettings, Field(discriminator="kind"), BeforeValidator(_name_default_kind)
]
PAIRWISE: tuple[str, ...] = tuple(
    settings().kind for settings in get_args(AnyObjectiveSettings) if issubclass(settings, PairwiseSettings)
)  # kinds that compare images of one class


class SvmaxSettings(Settings):
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
