"""From a recipe's words to an objective."""

from torch import nn

from models.objectives.arcface import ArcFace
from models.objectives.margin import MarginLoss
from models.objectives.multigrain import MultiGrain, Softmax
from models.objectives.pairs import PairObjective
from models.objectives.settings import MarginSettings, MultiGrainSettings, PairSettings, SoftmaxSettings
from models.settings import ArcFaceSettings

ObjectiveSettings = ArcFaceSettings | PairSettings | MarginSettings | SoftmaxSettings | MultiGrainSettings


def build_objective(settings: ObjectiveSettings, dimensions: int, classes: int, seed: int) -> nn.Module:
    """The objective of `classes` classes over embeddings of `dimensions`."""
    match settings:
        case ArcFaceSettings():
            return ArcFace(dimensions, classes, settings, seed)
        case MarginSettings():
            return MarginLoss(settings, seed)
        case MultiGrainSettings():
            return MultiGrain(dimensions, classes, settings, seed)
        case SoftmaxSettings():
            return Softmax(dimensions, classes)
        case _:
            return PairObjective(settings)
