"""Settings of a recipe for concatenating models, PCA and query normalisation."""

from collections.abc import Sequence
from itertools import product
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, NonNegativeFloat, field_validator

from image_copies.data.settings import Settings

MAX_DIMENSIONS = 256  # of a submitted vector: the challenge's limit
Method = Literal["none", "method1", "method2"]  # rows of METHODS in ensemble/normalization.py
Value = TypeVar("Value")
Candidates = Annotated[
    tuple[Value, ...], BeforeValidator(lambda given: given if isinstance(given, list | tuple) else (given,))
]


class EnsembleSettings(Settings):
    """PCA of the concatenated embeddings. A list gives candidates; the synthetic query set chooses among them.

    Attributes:
        dimensions: Number of PCA dimensions kept, 1…256.
        eigen_power: Exponent of the eigenvalue that each kept dimension is multiplied by: −0.5 whitens, 0 is plain PCA,
            which with all dimensions leaves the vectors of a model as they are, but for their mean.
        training_sample: Largest number of training vectors that the PCA is fitted on.
        weights: Factor of each model's vectors before concatenation, by name: 1 for models that are not named, 0 leaves
            one out.
    """

    dimensions: Candidates[int] = (256,)
    eigen_power: Candidates[float] = Field((0.0, -0.5), min_length=1)
    training_sample: int = Field(100_000, ge=2)
    weights: dict[str, Candidates[NonNegativeFloat]] | None = None

    def weightings(self, models: Sequence[str]) -> list[tuple[float, ...]]:
        """List every combination of candidate weights, one weight for each of `models`.

        Combinations of zeros only are left out; () stands for the combination in which every weight is 1.
        """
        known = self.weights or {}
        combinations = product(*(known.get(name, (1.0,)) for name in models))
        return [() if set(each) == {1.0} else each for each in combinations if any(each)]

    @field_validator("dimensions")
    @classmethod
    def _allowed(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1 or max(value) > MAX_DIMENSIONS:
            raise ValueError(
                f"got {list(value)}; expected one or more numbers in 1…{MAX_DIMENSIONS}, the challenge's limit"
            )
        return value


class NormalizationSettings(Settings):
    """Query normalisation against the training vectors (ISC2021 paper, section 2.7); the defaults are the paper's.

    A list gives candidates; the synthetic query set chooses among them.

    Attributes:
        methods: "none", "method1" (queries become longer) and "method2" (queries move away from their neighbours).
        beta1: Strength β of method 1 (Eq. 10).
        beta2: Strength β of method 2 (Eq. 14).
        similarity_neighbours: k of Eq. 9 and 11: nearest training vectors in the mean cosine C.
        direction_neighbours: k of Eq. 12: nearest training vectors that method 2 moves a query away from.
    """

    methods: Candidates[Method] = Field(("none", "method1", "method2"), min_length=1)
    beta1: Candidates[float] = Field((2.0,), min_length=1)
    beta2: Candidates[float] = Field((1.8,), min_length=1)
    similarity_neighbours: int = Field(3, ge=1)
    direction_neighbours: int = Field(100, ge=1)
