"""Checkpoints: safetensors files whose metadata describes the descriptor."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from image_copies.data.errors import UserError, prefix_errors
from image_copies.data.files import whole_file

from . import base, handmade, joined
from .description import DESCRIPTION, OLD_GRAPH, parse_description
from .descriptor import Descriptor
from .settings import DescriptorSettings, HandmadeSettings, JoinedSettings, is_local


@dataclass(frozen=True)
class Checkpoint:
    """A descriptor read from a file."""

    descriptor: base.ImageDescriptor  # the network with its weights, on the CPU
    image_size: int  # input size in pixels that it was trained at
    notes: dict[str, Any]  # JSON values noted when it was saved, such as stage, loss and validation µAP


def save_descriptor(
    path: Path,
    descriptor: base.ImageDescriptor,
    image_size: int,
    notes: dict[str, Any],
    halved: bool = False,
) -> None:
    """Write a checkpoint atomically, with the input size in pixels that it was trained at, and JSON values as notes.

    With `halved` the weights of convolutions and linear layers are in half precision: the file is half as large.

    Raises:
        UserError: The disk is full.
    """
    description = {
        "descriptor": descriptor.settings.model_dump(mode="json"),
        "image_size": image_size,
        "notes": notes,
    }
    weights = {name: tensor.contiguous() for name, tensor in descriptor.state_dict().items()}
    if halved:
        layers = [name for name, weight in descriptor.named_parameters() if weight.dim() > 1]
        weights |= {name: weights[name].half() for name in layers}
    with whole_file(path) as temporary:
        save_file(weights, temporary, metadata={DESCRIPTION: json.dumps(description, indent=1)})


def load_descriptor(path: Path) -> Checkpoint:
    """Build the descriptor that the file describes and load its weights, on the CPU.

    A file that is no safetensors file is read as SSCD's (published.py).

    Raises:
        UserError: The file is missing or not a checkpoint of this project, or not all weights are finite.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint. Train one with step 01.")
    if path.suffix != ".safetensors" and is_local(path.name):
        from .published import read_published  # imported here: rarely needed

        return Checkpoint(*read_published(path))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys() if name != OLD_GRAPH}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} is not a safetensors file ({error}). A checkpoint of a run: train its model again (step 01); "
            "otherwise name another file."
        ) from error
    if DESCRIPTION not in metadata:
        raise UserError(
            f"{path} contains weights without a description; it is not a checkpoint of this project. Name one that step 01 wrote."
        )
    description = parse_description(path, metadata[DESCRIPTION])
    with prefix_errors(path):
        descriptor = build_descriptor(description.descriptor)
    try:
        descriptor.load_state_dict(weights)  # converts half precision to float32
    except RuntimeError as error:
        raise UserError(
            f"{path} does not match its own description, perhaps because it was made with another version of timm: {error}"
        ) from error
    broken = [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise UserError(
            f"{path} contains NaN or infinite weights ({broken[0]}): its training diverged or the file is damaged. Use an "
            "earlier stage's checkpoint, or train again with a lower learning rate."
        )
    return Checkpoint(descriptor, description.image_size, description.notes)


def build_descriptor(
    settings: DescriptorSettings | HandmadeSettings | JoinedSettings,
) -> base.ImageDescriptor:
    """Build the descriptor that the settings describe, without loading weights.

    Raises:
        UserError: timm does not know the backbone or cannot build it.
    """
    match settings:
        case HandmadeSettings():
            return handmade.HandmadeDescriptor(settings)
        case JoinedSettings():
            return joined.JoinedDescriptor(
                settings, [build_descriptor(member.descriptor) for member in settings.members]
            )
        case _:
            return Descriptor(settings, load_weights=False)


def require_trained_network(checkpoint: Checkpoint, path: Path) -> Descriptor:
    """Return the checkpoint's descriptor if it is a single trained network.

    Raises:
        UserError: It is a handmade or joined descriptor.
    """
    if not isinstance(checkpoint.descriptor, Descriptor):
        raise UserError(
            f"{path} is a {type(checkpoint.descriptor).__name__}, not a single trained network. Name a checkpoint of step 01."
        )
    return checkpoint.descriptor
