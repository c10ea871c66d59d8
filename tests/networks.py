"""Untrained networks of 16 dimensions, for pictures of 32 pixels; and a GPU's lack of memory."""

from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor, nn

from image_copies.models.network.base import Backbone
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings


def build_edges(arguments: dict[str, object], pretrained: bool) -> Backbone:
    """One convolution of a width that the recipe says: a backbone for `BACKBONES`, with which an export takes an instant."""
    width = int(str(arguments.get("width", 6)))

    def compute(network: nn.Module, images: Tensor) -> Tensor:
        maps: Tensor = network(images)
        return maps.relu()

    return Backbone(nn.Conv2d(3, width, 8, stride=8), compute, width, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


SMALL = DescriptorSettings(backbone="test_efficientnet", dimensions=16)


def run_out_of_memory(*_: object, **__: object) -> NoReturn:
    """Stand for a computation that a GPU has no memory for."""
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def make_small(**changes: object) -> Descriptor:
    """Return an untrained network, with some of its settings changed."""
    return Descriptor(SMALL.model_copy(update=changes))


def save_small(path: Path, **changes: object) -> Path:
    """Write the file of an untrained network and return its path."""
    save_descriptor(path, make_small(**changes), 32, {})
    return path
