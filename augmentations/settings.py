"""What a recipe may say about edits."""

from typing import Literal

from pydantic import Field

from data.settings import Settings

Family = Literal["query", "reference", "multigrain_full", "autoaugment", "none"]


class AugmentationSettings(Settings):
    """family: "query" (the paper's table), "reference" (JPEG 40-100, flip), "multigrain_full" (flip, resized crop, colour
    jitter, PCA lighting), "autoaugment" (flip, resized crop, AutoAugment's ImageNet policy) or "none".

    intensity: I of the table, 0…1. extra: also the edits beyond the paper's table (severe crops, hiding inside unrelated
    images, borders, moiré, watermarks, …).
    """

    family: Family = "query"
    intensity: float = Field(0.75, ge=0, le=1)
    extra: bool = False
