"""What a recipe may say about joining and normalising vectors."""

from typing import Literal

from pydantic import Field, field_validator

from data.settings import Settings

MAX_DIMENSIONS = 256  # the challenge's rule
Method = Literal["none", "method1", "method2"]


class EnsembleSettings(Settings):
    """PCA of the joined embeddings. A list gives candidates; the synthetic query set chooses among them.

    eigen_power multiplies each kept dimension by eigenvalue ** eigen_power: -0.5 whitens (the paper), 0 is plain PCA.
    training_sample: at most this many training vectors fit the PCA.
    """

    dimensions: tuple[int, ...] = (256,)
    eigen_power: tuple[float, ...] = (-0.5,)
    training_sample: int = Field(100_000, ge=2)

    @field_validator("dimensions", "eigen_power", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return value if isinstance(value, (list, tuple)) else (value,)

    @field_validator("dimensions")
    @classmethod
    def _allowed(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1 or max(value) > MAX_DIMENSIONS:
            raise ValueError(f"each must lie in 1…{MAX_DIMENSIONS}, the challenge's limit")
        return value


class NormalizationSettings(Settings):
    """Query normalisation against the training vectors (ISC2021 paper, section 2.7). Lists give candidates.

    beta1, beta2: strengths of method 1 and 2 (the paper: 2.0 and 1.8). similarity_neighbours: the k of Eq. 9 and 11.
    direction_neighbours: the k of Eq. 12.
    """

    methods: tuple[Method, ...] = ("none", "method1", "method2")
    beta1: tuple[float, ...] = (2.0,)
    beta2: tuple[float, ...] = (1.8,)
    similarity_neighbours: int = Field(3, ge=1)
    direction_neighbours: int = Field(100, ge=1)

    @field_validator("methods", "beta1", "beta2", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return value if isinstance(value, (list, tuple)) else (value,)
