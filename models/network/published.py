"""SSCD's descriptors, read from their own files: their weights become those of a Descriptor, which embeds like any other."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from image_copies.data.errors import UserError

from . import backbones, weights_file
from .descriptor import Descriptor
from .settings import DescriptorSettings

BASIC_DEPTHS = {2: 18, 6: 34}  # by the number of blocks in the third group, of two convolutions each
DEPTHS = {6: 50, 23: 101}  # the same of three
SSCD_POOLING, SSCD_SIZE = 3.0, 320  # GeM's p; their "skew 320": squares


def read_published(path: Path) -> tuple[Descriptor, int, dict[str, Any]]:
    """Return the descriptor, the side in pixels that it was made for, and notes on it.

    SSCD (E. Pizzi et al., 2022), as `*.torchvision.pt`: a torchvision ResNet under `backbone.`, whose `fc`, with a bias, is the
    projection.

    Raises:
        UserError: The file cannot be read, or has another layout.
    """
    stored = weights_file.state_of(weights_file.read_weights_file(path), path)
    state = {name.removeprefix("module."): value.float() for name, value in stored.items()}
    if not {"backbone.fc.weight", "backbone.fc.bias", "backbone.layer1.0.conv1.weight"} <= state.keys():
        raise UserError(
            f"{path} holds weights in another layout than SSCD's (sscd_*.torchvision.pt). Export the network as ONNX, which "
            "takes part as it is; name weights of timm's networks as timm:NAME=FILE; a backbone alone is a start for training: "
            "`descriptor: {backbone: NAME, weights: FILE}` in a recipe."
        )
    projection = {f"projection.{name}": state.pop(f"backbone.fc.{name}") for name in ("weight", "bias")}
    settings = DescriptorSettings(
        backbone=name_resnet(state),
        dimensions=len(projection["projection.weight"]),
        projection_bias=True,
        pooling_exponent=SSCD_POOLING,
        train_pooling_exponent=False,
        mean=backbones.IMAGENET_MEAN,
        std=backbones.IMAGENET_STD,
    )
    descriptor = Descriptor(settings, load_weights=False)
    exponent = {"pooling.exponent": torch.tensor(settings.pooling_exponent)}
    try:
        descriptor.load_state_dict(exponent | state | projection)
    except RuntimeError as error:
        raise UserError(f"{path} does not fit timm's {settings.backbone}: {error}") from error
    return descriptor, SSCD_SIZE, {"published": "SSCD"}


def name_resnet(state: dict[str, Tensor]) -> str:
    """timm's name of the ResNet or ResNeXt whose weights are under `backbone.`, such as resnet50 or resnext101_32x4d."""
    blocks = len({name.split(".")[2] for name in state if name.startswith("backbone.layer3.")})
    if "backbone.layer1.0.conv3.weight" not in state:
        return f"resnet{BASIC_DEPTHS.get(blocks, blocks)}"
    depth = DEPTHS.get(blocks, blocks)
    channels, each = state["backbone.layer1.0.conv2.weight"].shape[:2]
    return f"resnet{depth}" if channels == each else f"resnext{depth}_{channels // each}x{each}d"
