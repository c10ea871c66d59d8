"""The settings of the edits in a recipe."""

from typing import Annotated, Literal

from pydantic import Field

from image_copies.data.settings import Settings

Table = Literal["query", "broad", "reference", "multigrain_full", "autoaugment", "crop_and_flip", "none"]
# What an edit does, whatever table it stands in; each edit function names its own (augmentations/edits/registry.py).
EditFamily = Literal[
    "geometry", "crop", "flip", "frame", "paste", "text", "colour", "channels", "quality", "policy", "warp", "art", "noise",
    "cover",
]  # fmt: skip


class AugmentationSettings(Settings):
    """Which edits are drawn, and their intensity.

    Attributes:
        family: the table: "query" (the ISC2021 paper's), "broad" (that, the edits beyond it and those of
            augmentations/tables/further.py), "reference" (JPEG quality 40-100 and flip), "multigrain_full" (flip, resized
            crop, colour jitter, PCA lighting), "autoaugment" (flip, resized crop, AutoAugment's ImageNet policy),
            "crop_and_flip" (IDEAL: a random crop of 224 of 256 pixels per side, flip) or "none".
        intensity: I of the ISC2021 paper's table, 0…1.
        extra: Also draw the edits beyond the paper's table: severe crops, hiding inside unrelated images, borders, moiré,
            watermarks and others.
        probabilities: Of rows of the tables by name, at intensity 1, in place of the tables' own; at other intensities they
            change as the tables' own do. 0 leaves an edit out. None for the tables' own.
        without: families of edits that are not drawn; None for all of the table.
        only: draw from these families alone, of the table "broad" whatever `family` and `extra` say; None for all.
    """

    family: Table = "query"
    intensity: float = Field(0.75, ge=0, le=1)
    extra: bool = False
    probabilities: dict[str, Annotated[float, Field(ge=0, le=1)]] | None = None
    without: tuple[EditFamily, ...] | None = None
    only: tuple[EditFamily, ...] | None = None
