"""The weights that a training starts from: a backbone's, or those of a whole descriptor of the same shape."""

from collections.abc import Iterable
from pathlib import Path

from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
from torch import Tensor, nn

from image_copies.data.errors import UserError

from ..distributed import group_rank
from . import base, settings, weights_file

# data parallel training adds the first, a descriptor that of its backbone
PREFIXES = ("module.", "backbone.")
# linear
HEADS = (
    "backbone.fc.weight",
    "fc.weight",
    "_fc.weight",
    "projection.weight",
    "head.weight",
    "classifier.weight",
)
LEAST_SHARE = 0.9  # of the backbone's tensors; fewer are those of another backbone


def load_start(descriptor: base.ImageDescriptor, backbone: nn.Module, weights: str) -> None:
    """Load a backbone's weights from a file, and the projection and GeM's p too where the file holds those of the same shape.

    `weights` are named as in `DescriptorSettings.weights`: a file, "shipped", or either followed by `#` and a member's name.

    Raises:
        UserError: The file cannot be read, has no such member, or belongs to another backbone.
    """
    path, prefix = find_start(weights)
    content = weights_file.state_of(weights_file.read_weights_file(path), path)
    state = {name.removeprefix(prefix): value for name, value in content.items() if name.startswith(prefix)}
    load_backbone(backbone, without_prefixes(state), path, LEAST_SHARE)
    own = {
        name: value
        for name, value in descriptor.state_dict().items()
        if name.startswith(("projection.", "pooling."))
    }
    if all(name in state and state[name].shape == value.shape for name, value in own.items()):
        descriptor.load_state_dict({name: state[name].float() for name in own}, strict=False)
    elif (
        head := dropped_head({name.removeprefix("module."): value for name, value in state.items()})
    ) and group_rank() == 0:
        print(
            f"  {path}: only the backbone is a start; its {head} is not used, and the linear layer begins at random"
        )


def find_start(weights: str) -> tuple[Path, str]:
    """Find the file that `weights` names, and the prefix of its member's weights there: "" of all.

    Raises:
        UserError: It names no file, the file is missing, or it has no such member.
    """
    path, member = settings.weights_path(weights)
    if path is None:
        raise UserError(
            f"weights: {weights!r}; expected none, pretrained, shipped#MEMBER, or a .pth, .pt or .safetensors file."
        )
    weights_file.require_weights_file(path)
    names = weights_file.read_member_names(path)
    if not names and member is None:
        return path, ""
    if member not in names:
        raise UserError(
            f"{path} joins {', '.join(names)}: name one to start from, as in `weights: {path.name}#{names[0]}`."
            if names
            else f"{path} is one descriptor, without a member {member!r}: leave #{member} out."
        )
    return path, f"members.{names.index(member)}."


def without_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The backbone's weights under their own names, where they stand in a descriptor's or a data-parallel network's."""
    for prefix in PREFIXES:
        inside = {
            name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
        }
        state = inside or state
    return state


def load_backbone(backbone: nn.Module, state: dict[str, Tensor], path: Path, share: float) -> list[str]:
    """Load weights by the backbone's names, or by those of another layout; return the names that it has no place for.

    Raises:
        UserError: They are fewer than this share of the backbone's tensors.
    """
    # DINO's and DINOv2's own names, position embeddings of another size
    if isinstance(backbone, VisionTransformer):
        state = checkpoint_filter_fn(dict(state), backbone)
    own = backbone.state_dict()
    state = rename_efficientnet(state, own)
    fitting = {
        key: value.float() for key, value in state.items() if key in own and value.shape == own[key].shape
    }
    if len(fitting) < share * len(own):
        missing = next(key for key in own if key not in fitting)
        raise UserError(
            f"{path} matches only {len(fitting)} of the backbone's {len(own)} tensors; {missing!r} is missing."
        )
    backbone.load_state_dict(fitting, strict=False)
    return sorted(state.keys() - own.keys())


def rename_efficientnet(state: dict[str, Tensor], own: Iterable[str]) -> dict[str, Tensor]:
    """Give the weights of `efficientnet_pytorch`, which has timm's layers in the same order, timm's names; others keep theirs.

    `own` are the names of timm's network, in their order.
    """
    if "_conv_stem.weight" not in state:
        return state
    return dict(zip(own, state.values(), strict=False))  # without its classifier, timm's has fewer


def dropped_head(state: dict[str, Tensor]) -> str | None:
    """The name and shape of a file's linear layer after pooling; None where it has none."""
    name = next((name for name in HEADS if name in state), None)
    return None if name is None else f"{name} {list(state[name].shape)}"
