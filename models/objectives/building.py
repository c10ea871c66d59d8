"""From a recipe's words to an objective."""

from torch import nn

from models.objectives.arcface import ArcFace
from models.settings import ArcFaceSettings


def build_objective(settings: ArcFaceSettings, dimensions: int, classes: int, seed: int) -> nn.Module:
    """The objective of `classes` classes over embeddings of `dimensions`."""
    return ArcFace(dimensions, classes, settings, seed)
