"""A checkpoint's network without torch: by its graph, an ONNX model beside the checkpoint that takes the weights from there.

`NAME.graph.onnx` embeds pictures. It gives torch's vectors, to SAME_VECTORS in a coordinate: both belong into the same index.
`NAME.views.onnx` embeds views with less work, nearly as well; these vectors are no references. Both name the checkpoint's file:
one that is renamed needs its graphs written again.
"""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from safetensors import SafetensorError, safe_open

from image_copies.data import commands, process
from image_copies.data.errors import UserError
from image_copies.data.files import digest_file

from .embedders import Embedder, open_once
from .onnx_embedder import open_onnx
from .settings import EmbeddingSettings

GRAPH, VIEWS = ".graph.onnx", ".views.onnx"  # in place of a checkpoint's ending


def open_network(checkpoint: Path, settings: EmbeddingSettings) -> Embedder:
    """Open a checkpoint's network: by ONNX Runtime if it has a graph, unless torch can use a GPU; otherwise by torch.

    Raises:
        UserError: The checkpoint is missing or damaged, or it has no graph and torch is not installed.
    """
    has_torch = find_spec("torch") is not None
    if not (has_torch and process.has_gpu()):
        opened = _open_graph(checkpoint)
        if opened is not None:
            return opened
    if not has_torch:
        _check(checkpoint)
        raise UserError(
            f"{checkpoint} cannot be used without torch: no graph of its weights is beside it. Install torch with: "
            f"{commands.name_install('train')}; or write the graph where it is installed: "
            f"{commands.name_command('export')} --checkpoint {checkpoint} --graph"
        )
    # imported here: torch takes seconds
    from .torch_embedder import load_embedder

    return load_embedder(checkpoint, settings)


def list_graphs(checkpoint: Path) -> list[Path]:
    """Return the graphs that lie beside a checkpoint."""
    beside = (checkpoint.resolve().with_suffix(ending) for ending in (GRAPH, VIEWS))
    return [path for path in beside if path.is_file()]


def _open_graph(checkpoint: Path) -> Embedder | None:
    """Open the graph of a checkpoint; None where there is none of its weights."""
    checkpoint = checkpoint.resolve()
    try:
        network = open_onnx(checkpoint.with_suffix(GRAPH), checkpoint)
    except (UserError, OSError):
        return None
    views = checkpoint.with_suffix(VIEWS)
    if not views.is_file():
        return network

    def open_views() -> Embedder:
        try:
            return open_onnx(views, checkpoint)
        except (UserError, OSError):  # damaged, or of other weights
            return network

    return replace(network, open_views=open_once(open_views), made_by=digest_file(views))


def _check(checkpoint: Path) -> None:
    """Raise a UserError for a file that no graph would make a checkpoint."""
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such checkpoint.")
    try:
        with safe_open(checkpoint, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{checkpoint} is not a safetensors file that can be read ({error}). Name another file."
        ) from error
