"""A descriptor in an ONNX file that `onnx_export` wrote, run by ONNX Runtime; without torch."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import digest_file
from image_copies.data.settings import Settings
from image_copies.models.inference.embedders import Embedder, Squares

if TYPE_CHECKING:
    import onnxruntime

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # the import leaves a device id at home, for its maker

DESCRIPTION, VECTORS = "description", "vectors"
MADE_OF = "made_of"  # among a graph's notes: the SHA-256 of its checkpoint


class OnnxDescription(Settings):
    """The description in an ONNX file's metadata."""

    sizes: tuple[int, ...]  # input sizes in pixels, one input for each
    dimensions: int
    preprocessing: str  # how an image becomes an input, in words
    notes: dict[str, Any]  # what the file was made from


def input_name(size: int) -> str:
    """Return the name of the input for squares of `size` pixels."""
    return f"pixels_{size}"


def open_onnx(path: Path, checkpoint: Path | None = None) -> Embedder:
    """Open an ONNX file on a GPU if ONNX Runtime supports it, otherwise on the CPU.

    Args:
        path: The file.
        checkpoint: The file in the same folder that holds its weights; None where it holds them itself.

    Raises:
        UserError: The file is missing, cannot be run, was not written by pipeline/export.py, or is the graph of other weights.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such ONNX file. Write one with: {name_command('export')} --run DIR --output {path}")
    return open_session(path, path.read_bytes(), checkpoint)


def open_session(path: Path, content: bytes, checkpoint: Path | None = None) -> Embedder:
    """Open an ONNX model; `path` is for messages, `content` the model's bytes, the rest is as for `open_onnx`.

    Raises:
        UserError: As for `open_onnx`.
    """
    import onnxruntime  # imported here: only these files need the runtime

    on_gpu = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # none: errors are raised
    options.intra_op_num_threads = 0 if on_gpu else 1  # threads embed batches side by side
    weights_folder = path if checkpoint is None else checkpoint.parent  # a file is no folder: weights elsewhere are an error
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights_folder))
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"] if on_gpu else ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(content, options, providers=providers)
    except Exception as error:  # the runtime raises its own kinds of errors
        raise UserError(
            f"{path} is not an ONNX file that can be run: {(str(error) or type(error).__name__).splitlines()[0]}"
        ) from error
    description = _read_description(path, session)
    if checkpoint is not None and description.notes.get(MADE_OF) != digest_file(checkpoint):
        raise UserError(
            f"{path} is not the graph of the weights in {checkpoint}. Write it again: "
            f"{name_command('export')} --checkpoint {checkpoint} --graph"
        )

    def embed(squares: Squares) -> NDArray[np.float32]:
        pixels = {input_name(size): np.ascontiguousarray(squares[size]) for size in description.sizes}
        return np.asarray(session.run([VECTORS], pixels)[0], np.float32)

    return Embedder(description.sizes, description.dimensions, embed, None if on_gpu else nullcontext)


def is_exported(path: Path) -> bool:
    """Whether a file is an ONNX file of this project."""
    try:
        open_onnx(path)
    except UserError:
        return False
    return True


def _read_description(path: Path, session: "onnxruntime.InferenceSession") -> OnnxDescription:
    """Read a model's description, which has to promise the inputs and outputs that the model has."""
    try:
        description = OnnxDescription.model_validate(json.loads(session.get_modelmeta().custom_metadata_map[DESCRIPTION]))
    except (KeyError, ValueError, ValidationError, RecursionError) as error:
        raise UserError(
            f"{path} does not describe what it takes ({type(error).__name__}); it was not written by pipeline/export.py."
        ) from error
    promised = {input_name(size) for size in description.sizes}
    inputs, outputs = {item.name for item in session.get_inputs()}, {item.name: item.shape for item in session.get_outputs()}
    if inputs != promised or VECTORS not in outputs:
        raise UserError(f"{path} has the inputs {sorted(inputs)}; its description promises {sorted(promised)}.")
    if outputs[VECTORS] != ["batch", description.dimensions]:
        raise UserError(f"{path} gives {outputs[VECTORS]} vectors; its description promises [batch, {description.dimensions}].")
    return description
