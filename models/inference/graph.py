"""A checkpoint's network without torch: an ONNX file next to it holds its graph, which takes the weights from the checkpoint.

The two files are `descriptor.safetensors` and `descriptor.graph.onnx`. A graph records the SHA-256 of its checkpoint. It gives
the vectors that torch gives, to SAME_VECTORS in a coordinate, so that both belong into the same index.
"""

import ctypes
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import digest_file
from image_copies.data.process import DEVICE_VARIABLE
from image_copies.models.inference.embedders import Embedder
from image_copies.models.inference.onnx_embedder import open_session
from image_copies.models.inference.settings import EmbeddingSettings

DRIVERS = {"nt": "nvcuda.dll", "posix": "libcuda.so.1"}  # NVIDIA's, by os.name


def graph_path(checkpoint: Path) -> Path:
    """Return where a checkpoint's graph is, if it has one."""
    return checkpoint.with_suffix(".graph.onnx")


def open_network(checkpoint: Path, settings: EmbeddingSettings) -> Embedder:
    """Open a checkpoint's network: by ONNX Runtime if it has a graph, unless torch can use a GPU; otherwise by torch.

    Raises:
        UserError: The checkpoint is missing or damaged, or it has no graph and torch is not installed.
    """
    graph, has_torch = graph_path(checkpoint), find_spec("torch") is not None
    if checkpoint.is_file() and graph.is_file() and not (has_torch and _has_gpu()):
        with suppress(UserError):  # of another state of the checkpoint
            opened = open_session(graph)
            if opened.weights == digest_file(checkpoint):
                return opened.embedder
    if not has_torch:
        problem = f"{graph} was made for another state of it" if graph.is_file() else "it has no graph next to it"
        raise UserError(
            f"{checkpoint} cannot be used without torch: {problem}. Install torch (pip install 'image-copy-detection[train]'), "
            f"or write a graph where it is installed: {name_command('export')} --checkpoint {checkpoint} --graph"
        )
    from image_copies.models.inference.torch_embedder import load_embedder  # imported here: torch takes seconds

    return load_embedder(checkpoint, settings)


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
