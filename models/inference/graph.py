"""A checkpoint's network without torch: the checkpoint may hold its own graph, an ONNX model that takes the weights from there.

The graph gives the vectors that torch gives, to SAME_VECTORS in a coordinate, so that both belong into the same index.
"""

import ctypes
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.installation import name_install
from image_copies.data.process import DEVICE_VARIABLE
from image_copies.models.inference.embedders import Embedder
from image_copies.models.inference.onnx_embedder import open_session
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.stored_graph import read_graph

DRIVERS = {"nt": "nvcuda.dll", "posix": "libcuda.so.1"}  # NVIDIA's, by os.name
NAME_PREFIX = "descriptors.0."  # of the weights in a graph


def open_network(checkpoint: Path, settings: EmbeddingSettings) -> Embedder:
    """Open a checkpoint's network: by ONNX Runtime if it holds a graph, unless torch can use a GPU; otherwise by torch.

    Raises:
        UserError: The checkpoint is missing or damaged, or it holds no graph and torch is not installed.
    """
    has_torch = find_spec("torch") is not None
    if not (has_torch and _has_gpu()):
        opened = _open_graph(checkpoint)
        if opened is not None:
            return opened
    if not has_torch:
        _check(checkpoint)
        raise UserError(
            f"{checkpoint} cannot be used without torch: it holds no graph of its weights. Install torch with: "
            f"{name_install('train')}; or add a graph where it is installed: "
            f"{name_command('export')} --checkpoint {checkpoint} --graph"
        )
    from image_copies.models.inference.torch_embedder import load_embedder  # imported here: torch takes seconds

    return load_embedder(checkpoint, settings)


def _open_graph(checkpoint: Path) -> Embedder | None:
    """Open the graph of a checkpoint; None where there is none of its weights."""
    try:
        graph = read_graph(checkpoint)
    except OSError:
        return None
    if graph is None:
        return None
    views = None if graph.views is None else (graph.views.content, name_weights(graph.views.weights))
    return open_session(checkpoint, graph.content, name_weights(graph.weights), views)


def name_weights(weights: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a checkpoint by their names in its graph."""
    return {NAME_PREFIX + name: weight for name, weight in weights.items()}


def _check(checkpoint: Path) -> None:
    """Raise a UserError for a file that no graph would make a checkpoint."""
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such checkpoint.")
    try:
        with safe_open(checkpoint, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise UserError(f"{checkpoint} is not a safetensors file that can be read ({error}). Name another file.") from error


def _has_gpu() -> bool:
    """Whether there is a GPU that torch would use; found out without torch."""
    named = os.environ.get(DEVICE_VARIABLE)
    if named:
        return named != "cpu"
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL(DRIVERS[os.name])
    except (OSError, KeyError):
        return False
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
