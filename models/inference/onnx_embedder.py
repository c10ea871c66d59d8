"""A network in an ONNX file, of this project or anybody's, run by ONNX Runtime; without torch."""

import json
import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.arrays import Float32s, UInt8s
from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import digest_file

from .embedders import Embedder, Squares

if TYPE_CHECKING:
    import onnxruntime

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # the import leaves a device id at home, for its maker

DESCRIPTION, VECTORS = "description", "vectors"
MADE_OF = "made_of"  # among a graph's notes: the SHA-256 of its checkpoint
OPEN_SIZE = 288  # pixels, where a file takes squares of any size: what SSCD is commonly given
# by the types of inputs
PIXELS = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32, "tensor(float16)": np.float16}
# ImageNet's, of pixels in 0…1, for floating-point inputs
MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
SHORTEST = 1e-12  # length of a vector that is divided by it


@dataclass(frozen=True)
class Input:
    """An input of an ONNX file, which takes squares."""

    name: str
    size: int  # pixels
    kind: str  # a key of PIXELS
    channels_last: bool

    def prepare(self, squares: UInt8s) -> NDArray[Any]:
        """Return squares [n, 3, size, size] as the file takes them."""
        pixels: NDArray[Any] = squares
        if self.kind != "tensor(uint8)":
            pixels = (squares / np.float32(255) - MEAN) / DEVIATION
        if self.channels_last:
            pixels = pixels.transpose(0, 2, 3, 1)
        return np.ascontiguousarray(pixels, PIXELS[self.kind])


def input_name(size: int) -> str:
    """Return the name of the input for squares of `size` pixels in a file that this project writes."""
    return f"pixels_{size}"


def open_onnx(path: Path, checkpoint: Path | None = None, size: int | None = None) -> Embedder:
    """Open any ONNX file that maps squares to vectors on a GPU if ONNX Runtime supports it, otherwise on the CPU.

    Its inputs take pictures, channels first or last: 8-bit pixels, or floating-point ones less ImageNet's mean, divided by its
    deviation. Its first output with two axes has the vectors [n, d].

    Args:
        path: The file.
        checkpoint: The file in the same folder that holds its weights; None where it holds them itself.
        size: Side in pixels of the squares that it gets, where the file leaves that open; None for OPEN_SIZE.

    Raises:
        UserError: The file is missing, cannot be run, takes or gives something else, or is the graph of other weights.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: no such ONNX file. Write one with: {name_command('export')} --run DIR --output {path}"
        )
    return open_session(path, path.read_bytes(), checkpoint, size)


def open_session(
    path: Path, content: bytes, checkpoint: Path | None = None, size: int | None = None
) -> Embedder:
    """Open an ONNX model; `path` is for messages, `content` the model's bytes, the rest is as for `open_onnx`.

    Raises:
        UserError: As for `open_onnx`.
    """
    import onnxruntime  # imported here: only these files need the runtime

    on_gpu = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # none: errors are raised
    options.intra_op_num_threads = 0 if on_gpu else 1  # threads embed batches side by side
    # a file is no folder: weights elsewhere are an error
    weights_folder = path if checkpoint is None else checkpoint.parent
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(weights_folder)
    )
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"] if on_gpu else ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(content, options, providers=providers)
    except Exception as error:  # the runtime raises its own kinds of errors
        raise UserError(
            f"{path} is not an ONNX file that can be run: {(str(error) or type(error).__name__).splitlines()[0]}"
        ) from error
    inputs = [_read_input(path, item, size) for item in session.get_inputs()]
    vectors, dimensions = _find_vectors(path, session)
    if checkpoint is not None and _read_notes(session).get(MADE_OF) != digest_file(checkpoint):
        raise UserError(
            f"{path} is not the graph of the weights in {checkpoint}. Write it again: "
            f"{name_command('export')} --checkpoint {checkpoint} --graph"
        )

    def embed(squares: Squares) -> Float32s:
        pixels = {each.name: each.prepare(squares[each.size]) for each in inputs}
        found: Float32s = np.asarray(session.run([vectors], pixels)[0], np.float32)
        if vectors == VECTORS:  # of this project, which gives them unit length
            return found
        unit: Float32s = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), SHORTEST)
        return unit

    sizes = tuple(sorted({each.size for each in inputs}))
    return Embedder(sizes, dimensions, embed, None if on_gpu else nullcontext)


def is_exported(path: Path) -> bool:
    """Whether a file is an ONNX file that this project wrote."""
    import onnxruntime  # imported here: only these files need the runtime

    try:
        return DESCRIPTION in onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    except Exception:  # the runtime raises its own kinds of errors
        return False


def _read_notes(session: "onnxruntime.InferenceSession") -> dict[str, Any]:
    """Return what this project noted in a file that it wrote; {} of others."""
    try:
        notes = json.loads(session.get_modelmeta().custom_metadata_map[DESCRIPTION])["notes"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _read_input(path: Path, item: "onnxruntime.NodeArg", size: int | None) -> Input:
    """Return what an input takes; `size` where the file leaves that open."""
    shape = list(item.shape)
    channels_last = shape[-1:] == [3]
    sides = shape[1:3] if channels_last else shape[2:]
    fixed = {side for side in sides if isinstance(side, int)}
    of_pictures = len(shape) == 4 and 3 in (shape[1], shape[3]) and not isinstance(shape[0], int)
    if not of_pictures or item.type not in PIXELS or len(fixed) > 1:
        raise UserError(
            f"{path} takes {item.name}, {item.type} {shape}; expected any number of pictures, 8-bit or floating-point, "
            "[n, 3, size, size] or [n, size, size, 3]. Export the network so."
        )
    side = fixed.pop() if fixed else size or OPEN_SIZE
    if size not in (None, side):
        raise UserError(f"{path} takes squares of {side} pixels, not of {size}: leave the size out.")
    return Input(item.name, side, item.type, channels_last)


def _find_vectors(path: Path, session: "onnxruntime.InferenceSession") -> tuple[str, int]:
    """Return the name of the output that has the vectors, and their number of dimensions."""
    outputs = {item.name: list(item.shape) for item in session.get_outputs()}
    for name, shape in outputs.items():
        if len(shape) == 2 and isinstance(shape[1], int):
            return name, shape[1]
    raise UserError(
        f"{path} gives {outputs}; expected vectors [n, d] of a known dimension. Export the network so."
    )
