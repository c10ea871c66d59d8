"""Layouts of published weights, and the names that timm has for what is in them."""

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor

BASIC_DEPTHS = {2: 18, 6: 34}  # by the number of blocks in the third group, of two convolutions each
DEPTHS = {6: 50, 23: 101}  # the same of three
HEADS = ("backbone.fc.weight", "fc.weight", "_fc.weight", "projection.weight", "head.weight", "classifier.weight")  # linear
HEAD_WIDTH = 64  # channels of an attention head in DINO's and DINOv2's ViTs


def rename_efficientnet(state: dict[str, Tensor], own: Iterable[str]) -> dict[str, Tensor]:
    """Give the weights of `efficientnet_pytorch`, which has timm's layers in the same order, timm's names; others keep theirs.

    `own` are the names of timm's network, in their order.
    """
    if "_conv_stem.weight" not in state:
        return state
    return dict(zip(own, state.values(), strict=False))  # without its classifier, timm's has fewer


def name_resnet(state: dict[str, Tensor]) -> str:
    """timm's name of the ResNet or ResNeXt whose weights are under `backbone.`, such as resnet50 or resnext101_32x4d."""
    blocks = len({name.split(".")[2] for name in state if name.startswith("backbone.layer3.")})
    if "backbone.layer1.0.conv3.weight" not in state:
        return f"resnet{BASIC_DEPTHS.get(blocks, blocks)}"
    depth = DEPTHS.get(blocks, blocks)
    channels, each = state["backbone.layer1.0.conv2.weight"].shape[:2]
    return f"resnet{depth}" if channels == each else f"resnext{depth}_{channels // each}x{each}d"


def describe_vit(state: dict[str, Tensor]) -> tuple[dict[str, Any], int]:
    """Return timm.create_model's arguments for a ViT of these weights (DINO's, DINOv2's, timm's), and its patches' side.

    Width, depth, patches, layer-scale and register tokens are read from the shapes; heads have HEAD_WIDTH channels, as in all of
    DINO's and DINOv2's.

    Raises:
        ValueError: The weights are those of another kind of ViT.
    """
    width, _, patch, _ = state["patch_embed.proj.weight"].shape
    hidden, positions = state["blocks.0.mlp.fc1.weight"].shape[0], state["pos_embed"].shape[1]
    registers = next((state[name].shape[1] for name in ("register_tokens", "reg_token") if name in state), 0)
    side = math.isqrt(positions)
    with_class = side * side != positions
    side = math.isqrt(positions - 1) if with_class else side
    if width % HEAD_WIDTH or "cls_token" not in state or side * side + with_class != positions:
        raise ValueError(f"width {width}, {positions} positions")
    depth = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
    arguments = {
        "img_size": side * patch,
        "patch_size": patch,
        "embed_dim": width,
        "depth": depth,
        "num_heads": width // HEAD_WIDTH,
        "mlp_ratio": hidden / width,
        "init_values": 1e-5 if "blocks.0.ls1.gamma" in state else None,
        "reg_tokens": registers,
        "no_embed_class": bool(registers) or not with_class,
    }
    return arguments, patch


def dropped_head(state: dict[str, Tensor]) -> str | None:
    """The name and shape of a file's linear layer after pooling; None where it has none."""
    name = next((name for name in HEADS if name in state), None)
    return None if name is None else f"{name} {list(state[name].shape)}"


def is_vit(state: dict[str, Tensor]) -> bool:
    """Whether these are the weights of a ViT alone, by DINO's, DINOv2's or timm's names."""
    return {"patch_embed.proj.weight", "pos_embed", "blocks.0.attn.qkv.weight"} <= state.keys()
