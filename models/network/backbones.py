"""Backbones by their names in a recipe: timm's, and others by a line of the table."""

import difflib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Any

import timm
from timm.models import is_model_in_modules
from torch import Tensor, nn
from torchvision.models import GoogLeNet_Weights, googlenet

from image_copies.data.errors import UserError

from .base import Backbone

CHANNELS = 1024


def build_googlenet(arguments: dict[str, Any], pretrained: bool) -> Backbone:
    """Build GoogLeNet up to its last map of 1,024 channels, with the names of torchvision's weights; it takes no arguments.

    Raises:
        UserError: There are arguments, or the pretrained weights cannot be fetched.
    """
    if arguments:
        raise UserError(f"googlenet takes no model_args, but has {arguments}.")
    try:
        weights = GoogLeNet_Weights.IMAGENET1K_V1 if pretrained else None
        whole = googlenet(weights=weights, aux_logits=pretrained, init_weights=not pretrained)
    except OSError as error:  # URLError, too
        raise UserError(
            f"the weights of 'googlenet' cannot be fetched ({error}). Without a network connection, download torchvision's file "
            "elsewhere and name it (`weights: path/to/file.pth` in the recipe), or train from `weights: none`."
        ) from error
    named = takewhile(lambda child: child[0] != "avgpool", whole.named_children())
    trunk = nn.Sequential(OrderedDict((name, child) for name, child in named if not name.startswith("aux")))
    # as its weights were learnt
    return Backbone(trunk, _compute_maps, CHANNELS, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


def _compute_maps(network: nn.Module, images: Tensor) -> Tensor:
    maps: Tensor = network(images)
    return maps


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
TIMM = "timm:"  # before a name of timm's: the whole network but for its classifier, as timm pools
TOKENS = ("vision_transformer", "deit")  # timm's modules of ViTs that take images of any size

# Backbones that are not timm's: functions of `model_args` and of whether the backbone brings its own weights.
BACKBONES: dict[str, Callable[[dict[str, Any], bool], Backbone]] = {
    "googlenet": build_googlenet,
}


def build_backbone(name: str, arguments: dict[str, Any], pretrained: bool) -> Backbone:
    """Build a backbone by the name and the arguments of `DescriptorSettings`, pretrained by its publisher or with random weights.

    Raises:
        UserError: It is unknown, cannot be built, or its weights cannot be fetched.
    """
    check_backbone(name)
    if name.startswith(TIMM):
        return _build_pooled(name.removeprefix(TIMM), arguments, pretrained)
    build = BACKBONES.get(name)
    return _build_timm(name, arguments, pretrained) if build is None else build(arguments, pretrained)


def check_backbone(name: str) -> None:
    """Check that the table or timm has the backbone.

    Raises:
        UserError: Neither has; the message suggests the nearest names.
    """
    name = name.removeprefix(TIMM)
    if name not in BACKBONES and not name.startswith("hf-hub:") and not timm.is_model(name.split(".")[0]):
        near = difflib.get_close_matches(name, [*BACKBONES, *timm.list_models()], n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else " See timm.list_models()."
        raise UserError(f"timm has no backbone {name!r}.{hint}")


def _build_timm(name: str, arguments: dict[str, Any], pretrained: bool, pools: bool = False) -> Backbone:
    """One of timm's networks without classifier and, unless it `pools`, pooling."""
    tokens = not name.startswith("hf-hub:") and is_model_in_modules(name.split(".")[0], TOKENS)
    if arguments.get("features_only"):
        raise UserError(
            "model_args features_only makes a backbone return a list of feature maps, but a descriptor pools the last one: "
            "leave it out."
        )
    any_size = {"dynamic_img_size": True, "dynamic_img_pad": True} if tokens else {}
    pooling = {} if pools else {"global_pool": ""}
    given = {"num_classes": 0} | pooling | any_size | arguments
    try:
        network: Any = timm.create_model(name, pretrained=pretrained, **given)
    except Exception as error:  # the hub's client raises many kinds of errors
        if not pretrained and not name.startswith("hf-hub:"):
            described = f" with model_args {arguments}" if arguments else ""
            raise UserError(f"timm cannot build the backbone {name!r}{described}: {error}") from error
        raise UserError(
            f"the weights of {name!r} cannot be fetched ({type(error).__name__}: {error}). Without a network connection, "
            "download them elsewhere and name the local file (`weights: path/to/file.safetensors` in the recipe), or train from "
            "`weights: none`."
        ) from error
    published: dict[str, Any] = getattr(network, "pretrained_cfg", None) or network.default_cfg
    return Backbone(
        network=network,
        compute=_compute_features,
        channels=network.num_features,
        prefix_tokens=int(getattr(network, "num_prefix_tokens", 0)),
        mean=tuple(published.get("mean", IMAGENET_MEAN)),
        std=tuple(published.get("std", IMAGENET_STD)),
    )


def _build_pooled(name: str, arguments: dict[str, Any], pretrained: bool) -> Backbone:
    """One of timm's networks with its own pooling."""
    built = _build_timm(name, arguments, pretrained, pools=True)
    network: Any = built.network
    width = getattr(network, "head_hidden_size", None) or network.num_features
    return replace(built, compute=_compute_maps, channels=width, prefix_tokens=0, pooled=True)


def _compute_features(network: nn.Module, images: Tensor) -> Tensor:
    features: Tensor = network.forward_features(images)  # type: ignore[operator]  # torch's types call every attribute a module
    return features
