"""Several descriptors and a projection of their vectors as one descriptor: an ensemble outside of a run."""

from copy import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..device import is_depthwise
from .base import ImageDescriptor
from .settings import JoinedSettings

VIEWS_SHARE = 0.8  # of the side at which a picture is embedded whole
DEPTHWISE_SHARE = 0.6  # of a network with depthwise convolutions, which whole numbers do not make faster (quantization.py)
SIDE_STEP = 32  # pixels: sides are multiples of it, which networks halve five times


def reduce_for_views(side: int, share: float = VIEWS_SHARE) -> int:
    """Return the side in pixels at which a network embeds views that embeds whole pictures at this one."""
    return min(side, max(1, round(share * side / SIDE_STEP)) * SIDE_STEP)


def has_depthwise(network: nn.Module) -> bool:
    """Whether a network has convolutions of single channels."""
    return any(map(is_depthwise, network.modules()))


class JoinedDescriptor(ImageDescriptor):
    """Concatenates the members' vectors, subtracts a mean, applies a projection and normalises: unit vectors [n, dimensions].

    Each member embeds the image at its own size and, with `flips`, its mirror image too: the vector is the unit mean of both.
    The buffer `background` float16 [n, dimensions] stores vectors of training images for query normalisation, not used here.
    """

    background: Tensor
    projection_mean: Tensor
    projection_axes: Tensor

    def __init__(self, settings: JoinedSettings, members: list[ImageDescriptor]) -> None:
        super().__init__()
        self.settings: JoinedSettings = settings
        self.members = nn.ModuleList(members)
        self.dimensions = settings.dimensions
        width = sum(member.dimensions for member in members)
        self.register_buffer("projection_mean", torch.zeros(width))
        self.register_buffer("projection_axes", torch.eye(self.dimensions, width))
        self.register_buffer(
            "background", torch.zeros(settings.background, self.dimensions, dtype=torch.float16)
        )

    def forward(self, images: Tensor, raw: bool = False) -> Tensor:
        """Return unit vectors [n, d], or with `raw` the members' concatenated vectors [n, Σ d] before the projection.

        `images` [n, 3, h, w] are in 0…1; each member normalises them itself.
        """
        vectors = torch.cat([self._vectors(number, images) for number in range(len(self.members))], dim=1)
        if raw:
            return vectors
        with torch.autocast(images.device.type, enabled=False):
            return functional.normalize((vectors - self.projection_mean) @ self.projection_axes.T)

    def for_views(self) -> "JoinedDescriptor":
        """Return what embeds a query's views, of the same weights: smaller, and without mirror images."""
        members = []
        for about, network in zip(self.settings.members, self.members, strict=True):
            share = DEPTHWISE_SHARE if has_depthwise(network) else VIEWS_SHARE
            side = reduce_for_views(about.image_size, share)
            members.append(about.model_copy(update={"flips": False, "image_size": side}))
        other = copy(self)
        other.settings = self.settings.model_copy(update={"members": members})
        return other

    def drop_background(self) -> None:
        """Remove the background permanently."""
        self.settings = self.settings.model_copy(update={"background": 0})
        self.background = self.background[:0].clone()

    def _vectors(self, number: int, images: Tensor) -> Tensor:
        """Return the unit vectors [n, d] of one member."""
        member = self.members[number]
        about = self.settings.members[number]
        if images.shape[2:] != (about.image_size, about.image_size):
            size = (about.image_size, about.image_size)
            images = functional.interpolate(
                images, size, mode="bilinear", antialias=True, align_corners=False
            )
        mean, std = (images.new_tensor(values)[:, None, None] for values in (member.mean, member.std))
        pixels = (images - mean) / std
        vectors: Tensor = member(pixels).float()
        if not about.flips:
            return vectors
        return functional.normalize(vectors + member(pixels.flip(3)).float())
