"""Settings of the objectives, with the papers' values as defaults; each class builds its objective (data/kinds.py lists all).

Reading settings does not import torch: `build` imports the module that it needs and passes plain values to the objective.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from image_copies.data.kinds import OBJECTIVES, REGULARIZERS, OfKind
from image_copies.data.settings import Settings

MAX_ROUNDED_SCALE = 64.0  # the sum of exp(64) over 10¹⁰ classes is below float32's end

if TYPE_CHECKING:
    from .arcface import ArcFace
    from .base import Objective


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


class RegularizerSettings(Settings):
    """The base of the settings of a term that is added to any objective."""

    def add_to(self, objective: "Objective") -> "Objective":
        """Return the objective with the term."""
        raise NotImplementedError


ObjectiveChoice = Annotated[
    SerializeAsAny[ObjectiveSettings], BeforeValidator(OfKind(OBJECTIVES, "arcface"))
]
SvmaxChoice = Annotated[SerializeAsAny[RegularizerSettings], BeforeValidator(OfKind(REGULARIZERS, "svmax"))]
