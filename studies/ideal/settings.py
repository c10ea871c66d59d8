"""Settings of the loss that IDEAL is measured with."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from image_copies.models.objectives.settings import PairwiseSettings

if TYPE_CHECKING:
    from image_copies.models.objectives.pairs import PairObjective


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

        from image_copies.models.objectives.pairs import PairObjective

        miner = None if self.mining is None else MultiSimilarityMiner(self.mining)
        return PairObjective(MultiSimilarityLoss(self.alpha, self.beta, self.base), miner=miner)
