"""Weights by name from a file that anybody made: read without running what it may hold."""

import argparse
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from image_copies.data.errors import UserError

from .description import OLD_GRAPH


def read_weights_file(path: Path) -> dict[str, Any]:
    """The content of a .pth, .pt, .tar or .safetensors file.

    Beside tensors and plain values, argparse's bag of options is accepted, which many trainings save.

    Raises:
        UserError: The file is missing, is none of these, or holds other Python objects.
    """
    require_weights_file(path)
    if _is_program(path):
        raise UserError(
            f"{path} is a TorchScript program, which is not run. Take the file of weights that is published next to it, for SSCD "
            "sscd_*.torchvision.pt; or, if you trust it: torch.save(torch.jit.load(FILE).state_dict(), NEW)."
        )
    try:
        if path.suffix == ".safetensors":
            return {name: tensor for name, tensor in load_file(path).items() if name != OLD_GRAPH}
        with torch.serialization.safe_globals([argparse.Namespace]):
            content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is refused: it is damaged, or contains Python objects besides tensors, which could run code when loaded. "
            "Convert the weights to .safetensors."
        ) from error
    except Exception as error:  # damaged files raise many kinds
        raise UserError(f"{path} cannot be read as a weights file: {error}") from error
    if not isinstance(content, dict):
        raise UserError(
            f"{path} contains no state_dict (tensors by name). Save one with torch.save(model.state_dict(), path)."
        )
    return content


def _is_program(path: Path) -> bool:
    """Whether a file is TorchScript: a zip archive with code; what torch.save writes has none."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.partition("/")[2].startswith("code/") for name in archive.namelist())


def require_weights_file(path: Path) -> None:
    """Check that a weights file is there.

    Raises:
        UserError: It is missing.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: no such weights file. Name a .pth, .pt, .tar or .safetensors file, or use weights: none or pretrained."
        )


def state_of(content: dict[str, Any], path: Path) -> dict[str, Tensor]:
    """Return the tensors by name among a file's content.

    Raises:
        UserError: It has none, or others besides them.
    """
    state: Any = content.get("state_dict", content)
    if (
        not isinstance(state, dict)
        or not state
        or not all(isinstance(value, Tensor) for value in state.values())
    ):
        raise UserError(
            f"{path} contains no state_dict (tensors by name). Save one with torch.save(model.state_dict(), path)."
        )
    return state


def read_member_names(path: Path) -> list[str]:
    """The names of the members that a file of this project joins, in their order; [] where it joins none.

    Raises:
        UserError: The file or its description is damaged.
    """
    if path.suffix != ".safetensors":
        return []
    try:
        with safe_open(path, framework="pt") as file:
            description = (file.metadata() or {}).get("description")
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read as a weights file: {error}") from error
    if description is None:
        return []
    try:
        about = json.loads(description)
        members = about["descriptor"].get("members", [])
        names = about["notes"].get("models", [])
        return [
            str(names[number]) if number < len(names) else str(number) for number in range(len(members))
        ]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path} has a damaged description ({error}). Name a checkpoint that this project wrote."
        ) from error
