"""The settings of the edits in a recipe."""

from typing import Annotated, Literal

from pydantic import Field

from image_copies.data.settings import Settings

Table = Literal[
    "query", "broad", "many", "reference", "multigrain_full", "autoaugment", "crop_and_flip", "none"
]
# What an edit does, whatever table it stands in; each edit function names its own (augmentations/edits/registry.py).
EditFamily = Literal[
    "geometry", "crop", "flip", "frame", "paste", "text", "colour", "channels", "quality", "policy", "warp", "art", "noise",
    "cover", "tone", "tint", "drawing", "printing", "tiles", "glitch", "swirl", "blend", "cutout", "weather", "screen", "paper",
    "bubble", "optics", "layout",
]  # fmt: skip


class TableSettings(Settings):
    """Which table of edits is drawn from, and their intensity.

    Attributes:
        family: The table: "query" (the ISC2021 paper's), "broad" and "many" (with further edits), "reference" (JPEG and
            flip), "multigrain_full", "autoaugment", "crop_and_flip" (IDEAL) or "none".
        intensity: I of the ISC2021 paper's table, 0…1.
        extra: Whether edits beyond the paper's table are drawn, too.
    """

    family: Table = "query"
    intensity: float = Field(0.75, ge=0, le=1)
    extra: bool = False


class AugmentationSettings(TableSettings):
    """Which edits are drawn: of a table, with other probabilities, or of some families.

    Attributes:
        probabilities: Probabilities at intensity 1 by edit name, which replace the tables' own and change with the intensity as
            those do; 0 disables an edit. None for the tables' own.
        without: Families of edits that are not drawn; None for all of the table.
        templates: Folder of pages to put images into instead of AugLy's screenshots; None for those.
        only: The only families that are drawn from, of the table "many" whatever `family` and `extra` say; None for all.
    """

    probabilities: dict[str, Annotated[float, Field(ge=0, le=1)]] | None = None
    without: tuple[EditFamily, ...] | None = None
    templates: str | None = None
    only: tuple[EditFamily, ...] | None = None
