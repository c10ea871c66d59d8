"""What a recipe may say about concatenating and normalising vectors."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Literal

from pydantic import Field, NonNegativeFloat, field_validator

from data.settings import Settings

MAX_DIMENSIONS = 256  # the challenge's rule
Method = Literal["none", "method1", "method2"]
METHOD_NAMES: dict[Method, str] = {"none": "not normalised", "method1": "method 1", "method2": "method 2"}
# ISC2021 paper, section 2.7: β of Eq. 10 and 14, k of Eq. 9 and 11, k of Eq. 12.
PAPER_BETA: dict[Method, float] = {"none": 0.0, "method1": 2.0, "method2": 1.8}
PAPER_SIMILARITY_NEIGHBOURS = 3
PAPER_DIRECTION_NEIGHBOURS = 100


class EnsembleSettings(Settings):
    """PCA of the concatenated embeddings. A list gives candidates; the synthetic query set chooses among them.

    Attributes:
        dimensions: how many PCA dimensions are kept, 1…256.
        eigen_power: each kept dimension is multiplied by eigenvalue ** eigen_power: −0.5 whitens (the paper), 0 is plain PCA.
        training_sample: the PCA is fitted on at most this many training vectors, at least 2.
        weights: of models by name, by which their vectors are multiplied before they are concatenated; 1 for models that are not
            named, 0 leaves one out.
    """

    dimensions: tuple[int, ...] = (256,)
    eigen_power: tuple[float, ...] = Field((-0.5,), min_length=1)
    training_sample: int = Field(100_000, ge=2)
    weights: dict[str, tuple[NonNegativeFloat, ...]] | None = None

    @field_validator("dimensions", "eigen_power", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return value if isinstance(value, (list, tuple)) else (value,)

    @field_validator("weights", mode="before")
    @classmethod
    def _one_or_several_each(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: each if isinstance(each, (list, tuple)) else (each,) for name, each in value.items()}

    def weightings(self, models: Sequence[str]) -> list[tuple[float, ...]]:
        """Every combination of the candidates, a weight for each of `models` and never all of them 0; () for equal ones."""
        known = self.weights or {}
        combinations = product(*(known.get(name, (1.0,)) for name in models))
        return [() if set(each) == {1.0} else each for each in combinations if any(each)]

    @field_validator("dimensions")
    @classmethod
    def _allowed(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1 or max(value) > MAX_DIMENSIONS:
            raise ValueError(f"each must lie in 1…{MAX_DIMENSIONS}, the challenge's limit")
        return value


class NormalizationSettings(Settings):
    """Query normalisation against the training vectors (ISC2021 paper, section 2.7); the defaults are the paper's.

    A list gives candidates; the synthetic query set chooses among them.

    Attributes:
        methods: "none", "method1" (queries become longer) and "method2" (queries move away from their neighbours).
        beta1: strength β of method 1 (Eq. 10).
        beta2: strength β of method 2 (Eq. 14).
        similarity_neighbours: k of Eq. 9 and 11, from 1 on: how many nearest training vectors the mean cosine C is taken over.
        direction_neighbours: k of Eq. 12, from 1 on: how many nearest training vectors method 2 moves a query away from.
    """

    methods: tuple[Method, ...] = Field(("none", "method1", "method2"), min_length=1)
    beta1: tuple[float, ...] = Field((PAPER_BETA["method1"],), min_length=1)
    beta2: tuple[float, ...] = Field((PAPER_BETA["method2"],), min_length=1)
    similarity_neighbours: int = Field(PAPER_SIMILARITY_NEIGHBOURS, ge=1)
    direction_neighbours: int = Field(PAPER_DIRECTION_NEIGHBOURS, ge=1)

    def betas(self, method: Method) -> tuple[float, ...]:
        """The candidates of β for `method`; 0 alone without normalisation."""
        return {"none": (PAPER_BETA["none"],), "method1": self.beta1, "method2": self.beta2}[method]

    def with_betas(self, betas: Mapping[Method, float]) -> "NormalizationSettings":
        """The same neighbours, with every method of `betas` at one β as the only candidates."""
        known = {"methods": tuple(betas), "beta1": (betas.get("method1", 0.0),), "beta2": (betas.get("method2", 0.0),)}
        return self.model_copy(update=known)

    @field_validator("methods", "beta1", "beta2", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return value if isinstance(value, (list, tuple)) else (value,)
