"""Descriptors that others have published, read from their own files: SSCD and DINO's ViTs.

Their weights become those of a Descriptor, so that they embed, match, join an ensemble and teach like any other.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from image_copies.data.errors import UserError
from image_copies.models.network.backbones import IMAGENET_MEAN, IMAGENET_STD
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.layouts import describe_vit, is_vit, name_resnet
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.network.start import load_backbone, without_prefixes
from image_copies.models.network.weights_file import read_weights_file, state_of

SSCD_POOLING, SSCD_SIZE = 3.0, 320  # GeM's p; their "skew 320": squares
VIT, VIT_SIZE = "vit_small_patch16_224", 224  # timm's, of another width and depth; pixels
VIT_POOLING = 4.0  # GeM's p in DINO's evaluation of copy detection
WRAP = (
    "If timm has it, write a checkpoint of it: models.network.checkpoint.save_descriptor(Path('vit.safetensors'), Descriptor("
    "DescriptorSettings(backbone='NAME', weights='FILE', dimensions=None)), 224, {})."
)


def read_published(path: Path) -> tuple[Descriptor, int, dict[str, Any]]:
    """The descriptor in one of the known layouts, the side in pixels that it was made for, and notes on it.

    SSCD (E. Pizzi et al., 2022), as `*.torchvision.pt`: a torchvision ResNet under `backbone.`, whose `fc`, with a bias, is the
    projection. A ViT's weights alone, as DINO and DINOv2 publish them: its class token next to GeM of its patch tokens, without a
    projection.

    Raises:
        UserError: The file cannot be read, or has another layout.
    """
    stored = state_of(read_weights_file(path), path)
    state = {name.removeprefix("module."): value.float() for name, value in stored.items()}
    if {"backbone.fc.weight", "backbone.fc.bias", "backbone.layer1.0.conv1.weight"} <= state.keys():
        return _read_sscd(state, path)
    if is_vit(vit := without_prefixes(state)):
        return _read_vit(vit, path)
    raise UserError(
        f"{path} holds weights in no layout that is known: neither SSCD's (sscd_*.torchvision.pt) nor a ViT's "
        "(DINO, DINOv2). Export the network as ONNX, which takes part as it is; a backbone alone is a start for training: "
        "`descriptor: {backbone: NAME, weights: FILE}` in a recipe."
    )


def _read_sscd(state: dict[str, Tensor], path: Path) -> tuple[Descriptor, int, dict[str, Any]]:
    projection = {f"projection.{name}": state.pop(f"backbone.fc.{name}") for name in ("weight", "bias")}
    settings = DescriptorSettings(
        backbone=name_resnet(state),
        dimensions=len(projection["projection.weight"]),
        projection_bias=True,
        pooling_exponent=SSCD_POOLING,
        train_pooling_exponent=False,
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
    )
    return _build(settings, state | projection, path), SSCD_SIZE, {"published": "SSCD"}


def _read_vit(state: dict[str, Tensor], path: Path) -> tuple[Descriptor, int, dict[str, Any]]:
    try:
        arguments, patch = describe_vit(state)
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} holds a ViT unlike DINO's and DINOv2's ({error}). {WRAP}") from error
    settings = DescriptorSettings(
        backbone=VIT,
        model_args=arguments,
        dimensions=None,
        pooling_exponent=VIT_POOLING,
        train_pooling_exponent=False,
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
    )
    descriptor = Descriptor(settings, load_weights=False)
    unused = [name for name in load_backbone(descriptor.backbone, state, path, share=1.0) if not name.startswith("head")]
    if unused:
        raise UserError(f"{path} holds a ViT unlike DINO's and DINOv2's: they have no {unused[0]}. {WRAP}")
    return descriptor, max(1, VIT_SIZE // patch) * patch, {"published": "ViT"}


def _build(settings: DescriptorSettings, state: dict[str, Tensor], path: Path) -> Descriptor:
    descriptor = Descriptor(settings, load_weights=False)
    exponent = {"pooling.exponent": torch.tensor(settings.pooling_exponent)}
    try:
        descriptor.load_state_dict(exponent | state)
    except RuntimeError as error:
        raise UserError(f"{path} does not fit timm's {settings.backbone}: {error}") from error
    return descriptor
