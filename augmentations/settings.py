"""What a recipe may say about edits."""

from typing import Literal

from pydantic import Field

from data.settings import Settings


class AugmentationSettings(Settings):
    """family: "query" (the paper's table, spec of the challenge's edits), "reference" (JPEG 40-100, flip) or "none".

    intensity: I of the table, 0…1. extra: also the edits beyond the paper's table (severe crops, hiding inside unrelated
    images, borders, moiré, watermarks, …).
    """

    family: Literal["query", "reference", "none"] = "query"
    intensity: float = Field(0.75, ge=0, le=1)
    extra: bool = False
