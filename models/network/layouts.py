"""Layouts of published weights, and the names that timm has for what is in them."""

from collections.abc import Iterable

from torch import Tensor

BASIC_DEPTHS = {2: 18, 6: 34}  # by the number of blocks in the third group, of two convolutions each
DEPTHS = {6: 50, 23: 101}  # the same of three
HEADS = ("backbone.fc.weight", "fc.weight", "_fc.weight", "projection.weight", "head.weight", "classifier.weight")  # linear


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


def dropped_head(state: dict[str, Tensor]) -> str | None:
    """The name and shape of a file's linear layer after pooling; None where it has none."""
    name = next((name for name in HEADS if name in state), None)
    return None if name is None else f"{name} {list(state[name].shape)}"
