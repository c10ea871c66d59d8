"""A descriptor in an ONNX file that `onnx_export` wrote, run by ONNX Runtime; without torch."""

import json
import os
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.settings import Settings
from image_copies.models.inference.embedders import Embedder, Squares

if TYPE_CHECKING:
    import onnxruntime

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # the import leaves a device id at home, for its maker

DESCRIPTION, VECTORS = "description", "vectors"
Weights = Mapping[str, NDArray[np.float32]]  # of any shape, by their names in a model


class OnnxDescription(Settings):
    """The description in an ONNX file's metadata."""

    sizes: tuple[int, ...]  # input sizes in pixels, one input for each
    dimensions: int
    preprocessing: str  # how an image becomes an input, in words
    notes: dict[str, Any]  # what the file was made from


def input_name(size: int) -> str:
    """Return the name of the input for squares of `size` pixels."""
    return f"pixels_{size}"


def open_onnx(path: Path) -> Embedder:
    """Open an ONNX file on a GPU if ONNX Runtime supports it, otherwise on the CPU.

    Raises:
        UserError: The file is missing, cannot be run, or was not written by pipeline/export.py.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such ONNX file. Write one with: {name_command('export')} --run DIR --output {path}")
    return open_session(path, path.read_bytes())


def open_session(
    path: Path, content: bytes, weights: Weights | None = None, views: tuple[bytes, Weights] | None = None
) -> Embedder:
    """Open an ONNX model.

    Args:
        path: The file that holds it, for messages.
        content: The model's bytes.
        weights: The weights that it does not hold itself, of any shape, by name; None for a model that holds all.
        views: The model that embeds views, and its weights; None where that is the same one.

    Raises:
        UserError: It cannot be run, or was not written by this project.
    """
    import onnxruntime  # imported here: only these files need the runtime

    on_gpu = "CUDAExecutionProvider" in onnxruntime.get_available_providers()

    def start(model: bytes, weights: Weights | None) -> "onnxruntime.InferenceSession":
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only
        options.intra_op_num_threads = 0 if on_gpu else 1  # threads embed batches side by side
        if weights is not None:
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(each) for each in weights.values()]
            options.add_external_initializers(list(weights), values)
        elif _keeps_weights_elsewhere(model):
            raise ValueError("it keeps weights in external files, which is not supported")
        providers = ["CUDAExecutionProvider", "CPUExecutionProvider"] if on_gpu else ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(model, options, providers=providers)

    try:
        session = start(content, weights)
    except Exception as error:  # the runtime raises its own kinds of errors
        raise UserError(
            f"{path} is not an ONNX file that can be run: {(str(error) or type(error).__name__).splitlines()[0]}"
        ) from error
    description = _read_description(path, session)

    def run(started: "onnxruntime.InferenceSession", squares: Squares) -> NDArray[np.float32]:
        pixels = {input_name(size): np.ascontiguousarray(squares[size]) for size in description.sizes}
        return np.asarray(started.run([VECTORS], pixels)[0], np.float32)

    starting = threading.Lock()

    @cache
    def start_alone() -> "onnxruntime.InferenceSession":
        return session if views is None else start(*views)

    def embed_alone(squares: Squares) -> NDArray[np.float32]:
        with starting:
            started = start_alone()
        return run(started, squares)

    def embed(squares: Squares) -> NDArray[np.float32]:
        return run(session, squares)

    return Embedder(description.sizes, description.dimensions, embed, None if on_gpu else nullcontext, alone=embed_alone)


def is_exported(path: Path) -> bool:
    """Whether a file is an ONNX file of this project."""
    try:
        open_onnx(path)
    except UserError:
        return False
    return True


def _keeps_weights_elsewhere(content: bytes) -> bool:
    """Whether an ONNX file takes tensors from other files; each such tensor has an entry "location"."""
    if b"location" not in content:
        return False
    import onnx  # imported here: it is needed for strange files only
    from onnx.external_data_helper import _get_all_tensors, uses_external_data

    return any(uses_external_data(tensor) for tensor in _get_all_tensors(onnx.load_model_from_string(content)))


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
