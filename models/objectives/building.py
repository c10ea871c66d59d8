"""The one table: a recipe's objective settings → the objective. mypy refuses settings that have no case here."""

from models.objectives.arcface import ArcFace
from models.objectives.base import Objective
from models.objectives.margin import MarginLoss
from models.objectives.multigrain import MultiGrain, Softmax
from models.objectives.pairs import PairObjective
from models.objectives.settings import (
    AnyObjectiveSettings,
    ArcFaceSettings,
    MarginSettings,
    MultiGrainSettings,
    SoftmaxSettings,
)


def build_objective(settings: AnyObjectiveSettings, dimensions: int, classes: int, seed: int) -> Objective:
    """The objective of `classes` classes over embeddings [n, dimensions]; what it draws depends on `seed`."""
    match settings:
        case ArcFaceSettings():
            return ArcFace(dimensions, classes, settings, seed)
        case SoftmaxSettings():
            return Softmax(dimensions, classes)
        case MarginSettings():
            return MarginLoss(settings, seed)
        case MultiGrainSettings():
            return MultiGrain(dimensions, classes, settings, seed)
        case _:  # PairSettings, whose losses are in pairs.py
            return PairObjective(settings)
