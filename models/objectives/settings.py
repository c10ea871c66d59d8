"""What a recipe may say of an objective, with the papers' values where it says nothing."""

from typing import Annotated, Literal

from pydantic import Field

from data.settings import Settings


class ContrastiveSettings(Settings):
    """Margins are distances of unit vectors, 0…2: positives further than the first and negatives nearer than the second count."""

    kind: Literal["contrastive"] = "contrastive"
    positive_margin: float = Field(0.0, ge=0, lt=2)
    negative_margin: float = Field(1.0, gt=0, le=2)


class TripletSettings(Settings):
    """The margin is a difference of distances of unit vectors."""

    kind: Literal["triplet"] = "triplet"
    margin: float = Field(0.2, gt=0, le=2)


class MultiSimilaritySettings(Settings):
    """X. Wang et al., Multi-Similarity Loss (2019): α, β weigh positives and negatives around the cosine λ, here `base`."""

    kind: Literal["multi_similarity"] = "multi_similarity"
    alpha: float = Field(2.0, gt=0)
    beta: float = Field(50.0, gt=0)
    base: float = Field(0.5, ge=-1, le=1)


class NPairSettings(Settings):
    """SVMax, equation A1. Without `normalize` the inner products are of raw embeddings, and the bounds don't hold."""

    kind: Literal["npair"] = "npair"
    normalize: bool = True


class AngularSettings(Settings):
    """SVMax, equations A3 and A4; the angle α in degrees."""

    kind: Literal["angular"] = "angular"
    angle: float = Field(45.0, gt=0, lt=90)


class MarginSettings(Settings):
    """MultiGrain, section 3: α, the start of the learnt β, β's own learning rate, and τ, the cap of the sampling's weights.

    The paper gives no τ; here it is e^`log_cap` times the weight at distance √2, the commonest in high dimension.
    """

    kind: Literal["margin"] = "margin"
    margin: float = Field(0.2, ge=0, le=2)
    beta: float = Field(1.2, gt=0, le=2)
    beta_learning_rate: float = Field(0.1, ge=0)
    log_cap: float = Field(10.0, ge=0)


class SoftmaxSettings(Settings):
    """Cross entropy of a linear classifier over the classes."""

    kind: Literal["softmax"] = "softmax"


class MultiGrainSettings(Settings):
    """λ · cross entropy + (1 − λ) · margin loss; λ is `weight`, the rest the margin loss's own."""

    kind: Literal["multigrain"] = "multigrain"
    weight: float = Field(0.5, ge=0, le=1)
    margin: float = Field(0.2, ge=0, le=2)
    beta: float = Field(1.2, gt=0, le=2)
    beta_learning_rate: float = Field(0.1, ge=0)
    log_cap: float = Field(10.0, ge=0)

    def margin_settings(self) -> MarginSettings:
        return MarginSettings(**self.model_dump(exclude={"kind", "weight"}))


PairSettings = ContrastiveSettings | TripletSettings | MultiSimilaritySettings | NPairSettings | AngularSettings
PaperObjectiveSettings = Annotated[
    PairSettings | MarginSettings | SoftmaxSettings | MultiGrainSettings,
    Field(discriminator="kind"),
]


class SvmaxSettings(Settings):
    """The regulariser's form and its λ: 1 with contrastive, 0.1 with triplet, 0.01 in the unbounded form."""

    form: Literal["bounded", "unbounded"] = "bounded"
    weight: float = Field(1.0, ge=0)
