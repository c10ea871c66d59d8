"""What a checkpoint says of itself, and its vectors for query normalisation; read without torch."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open

from image_copies.data.arrays import Float32s
from image_copies.data.errors import UserError
from image_copies.data.settings import Settings, read_recorded

from .settings import MAX_IMAGE_SIZE, MIN_IMAGE_SIZE, DescriptorSettings, HandmadeSettings, JoinedSettings

DESCRIPTION = "description"  # key of the metadata
OLD_GRAPH = "onnx_graph"  # a tensor of the checkpoints that earlier versions exported; it is no weight
About = TypeVar("About", DescriptorSettings, HandmadeSettings, JoinedSettings)


class Description(Settings, Generic[About]):
    """The metadata of a checkpoint: the settings, and what `Checkpoint` holds besides the weights."""

    descriptor: About
    image_size: int = Field(ge=MIN_IMAGE_SIZE, le=MAX_IMAGE_SIZE)
    notes: dict[str, Any]


AnyDescription = (
    Description[DescriptorSettings] | Description[HandmadeSettings] | Description[JoinedSettings]
)


@dataclass(frozen=True)
class Stored:
    """What the checkpoint of a whole run stores besides its networks."""

    # float32 [n, d], vectors of training images for query normalisation; n may be 0
    background: Float32s
    notes: dict[str, Any]  # JSON values, the variant and the tail of unrelated pairs among them


def read_stored(path: Path) -> Stored | None:
    """Return what a checkpoint, which was opened before, stores besides its networks; None for one of a single network."""
    if path.suffix != ".safetensors":
        return None
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
        if DESCRIPTION not in metadata:
            return None
        description = parse_description(path, metadata[DESCRIPTION])
        if not isinstance(description.descriptor, JoinedSettings):
            return None
        return Stored(file.get_tensor("background").astype(np.float32), description.notes)


def is_checkpoint(path: Path) -> bool:
    """Whether a file is a checkpoint of this project."""
    try:
        with safe_open(path, framework="numpy") as file:
            return DESCRIPTION in (file.metadata() or {})
    except (OSError, SafetensorError):
        return False


def parse_description(path: Path, text: str) -> AnyDescription:
    """Return the description in a checkpoint's metadata; `path` is named in messages.

    Raises:
        UserError: It is not one that this project writes.
    """
    try:
        content = json.loads(text)
        about = content.get("descriptor") if isinstance(content, dict) else None
        if isinstance(about, dict) and "members" in about:
            return read_recorded(Description[JoinedSettings], content)
        if isinstance(about, dict) and "kind" in about:
            return read_recorded(Description[HandmadeSettings], content)
        return read_recorded(Description[DescriptorSettings], content)
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc'])) or 'description'}: {first['msg']}"
    except (ValueError, RecursionError) as error:
        problem = f"it is not JSON ({error})"
    raise UserError(
        f"{path} has an invalid description: {problem}. It was not written by this project, or is damaged."
    )
