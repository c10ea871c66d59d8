"""Settings of descriptors: trained, handmade, and several joined."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveFloat, model_validator

from image_copies.data.settings import Settings

from ..shipped import SHIPPED

ROTATIONS = 4  # that share the dimensions of a vector with domains
MIN_IMAGE_SIZE, MAX_IMAGE_SIZE = 16, 8192  # pixels per side
WEIGHTS_SUFFIXES = (".pth", ".pt", ".tar", ".safetensors")


class DescriptorSettings(Settings):
    """A trained descriptor: timm backbone → GeM → linear layer → L2 normalisation (ISC2021 paper, 2.2).

    Attributes:
        backbone: A model name of timm, `timm:name` for it with its own pooling, `hf-hub:owner/name`, or a name in
            models/network/backbones.py.
        weights: "none"; "pretrained" (timm's own); or a file, of a backbone or a descriptor; `FILE#NAME` is a member of
            a joined descriptor, `shipped#NAME` one of what ships.
        dimensions: Dimension of the vector; None for the pooled one, without the linear layer.
        pooling_exponent: GeM's p, or its initial value if it is trained.
        train_pooling_exponent: Whether p is trained.
        domains: Four rotations, each with its own quarter of the linear layer ("split", IDEAL), or all through one
            ("shared").
        quarter_turns: Counter-clockwise quarter turns by which images are rotated first (IDEAL, table 1).
        whiten: Whether PCA whitening is fitted on unlabelled training images after training (MultiGrain, section 3.4).
        model_args: Further arguments of timm.create_model, such as `{output_stride: 16}`.
        projection_bias: Whether the linear layer has a bias.
        frozen_statistics: Whether the backbone's batch normalisations keep their initial statistics.
        mean: Mean per colour channel that is subtracted from pixels in 0…1; None for the backbone's own.
        std: Standard deviation per colour channel by which they are divided; None for the backbone's own.
    """

    backbone: str
    weights: str = "none"
    dimensions: int | None = Field(256, ge=2, le=65_536)
    model_args: dict[str, Any] | None = None
    projection_bias: bool = False
    frozen_statistics: bool = False
    mean: tuple[float, float, float] | None = None
    std: tuple[PositiveFloat, PositiveFloat, PositiveFloat] | None = None
    pooling_exponent: float = Field(3.0, gt=0)
    train_pooling_exponent: bool = True
    domains: Literal["split", "shared"] | None = None
    quarter_turns: int = Field(0, ge=0, le=3)
    whiten: bool = False

    @model_validator(mode="after")
    def _domains_divide_the_vector(self) -> "DescriptorSettings":
        if self.domains and (self.dimensions is None or self.dimensions % ROTATIONS or self.dimensions < 8):
            needed = "a multiple of 4, at least 8"
            raise ValueError(
                f"domains: the 4 rotations share the dimensions, which must be {needed}; found {self.dimensions}"
            )
        if self.domains and self.quarter_turns:
            raise ValueError("domains are the four rotations already: leave quarter_turns out")
        if self.domains and self.projection_bias:
            raise ValueError("projection_bias goes with one head: leave it or domains out")
        if self.domains and self.whiten:
            raise ValueError(
                "whiten goes with one head: leave domains out, or leave whitening to step 03 (eigen_power)"
            )
        return self


class HandmadeSettings(Settings):
    """A handmade descriptor: only its whitening is fitted, on training images.

    Attributes:
        kind: "gabor", energies of 32 filters in 4 × 4 cells.
        dimensions: Largest number of dimensions that the whitening keeps.
    """

    kind: Literal["gabor"]
    dimensions: int = Field(256, ge=2, le=512)


class MemberSettings(Settings):
    """A member of a joined descriptor."""

    descriptor: "DescriptorSettings | HandmadeSettings | JoinedSettings"  # which may be joined again
    image_size: int = Field(ge=MIN_IMAGE_SIZE, le=MAX_IMAGE_SIZE)
    flips: bool = False  # whether its vector is the mean over the image and its mirror image


class JoinedSettings(Settings):
    """Several descriptors and a projection of their vectors, as one file (models/network/joined.py)."""

    # the members, in the order in which their vectors are concatenated
    members: tuple[MemberSettings, ...] = Field(min_length=1)
    dimensions: int = Field(ge=2)
    # number of training images' vectors stored with it, for query normalisation
    background: int = Field(0, ge=0)


MemberSettings.model_rebuild()  # a member may be a JoinedSettings


def without_weights_files(
    settings: DescriptorSettings | HandmadeSettings | JoinedSettings,
) -> DescriptorSettings | HandmadeSettings | JoinedSettings:
    """The settings of a descriptor whose weights are in its own file: what it started from, with its path, is left out."""
    if isinstance(settings, JoinedSettings):
        members = (
            member.model_copy(update={"descriptor": without_weights_files(member.descriptor)})
            for member in settings.members
        )
        return settings.model_copy(update={"members": tuple(members)})
    return (
        settings.model_copy(update={"weights": "none"})
        if isinstance(settings, DescriptorSettings)
        else settings
    )


def weights_path(weights: str) -> tuple[Path | None, str | None]:
    """The file that `weights` names, and the member in it; None for "none", "pretrained" and what is no weights file."""
    if is_local(weights):  # whose name may hold a "#" itself
        return Path(weights), None
    name, _, member = weights.rpartition("#")
    path = find_file(Path(name))
    return (path, member) if is_local(path.name) else (None, None)


def find_file(file: Path) -> Path:
    """The file that a recipe names: "shipped" is the descriptor that ships with the project."""
    return SHIPPED if file == Path("shipped") else file


def is_local(weights: str) -> bool:
    """Whether `weights` names a file rather than "none" or "pretrained"."""
    return Path(weights).suffix in WEIGHTS_SUFFIXES
