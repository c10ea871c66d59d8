"""The graphs that a checkpoint may hold: ONNX models behind its tensors, which take the weights from them; without torch.

One embeds pictures; where a query's views are embedded with less work, a second one does that.

A safetensors file is the length of its header, the header as JSON (metadata; type, shape and place of each tensor), and the
tensors' bytes. Thus the file without its graph is known to the byte, and identifies a checkpoint with and without one.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from image_copies.data.files import BLOCK_BYTES, digest_file, open_regular, whole_file
from image_copies.data.settings import Settings

GRAPH = "onnx_graph"  # of the tensor that holds the graph's bytes, and of the metadata's notes on it
METADATA = "__metadata__"
MAX_HEADER_BYTES = 100_000_000  # safetensors' own limit
ALIGNMENT = 8  # bytes


@dataclass(frozen=True)
class Graph:
    """A graph of a checkpoint, and the weights that it takes from there."""

    content: bytes
    weights: dict[str, NDArray[np.float32]]  # by their names in the checkpoint; mapped, not read
    views: "Graph | None" = None  # of the same checkpoint, for a query's views


class GraphNotes(Settings):
    """The notes on a graph in a checkpoint's metadata, or on two, one after the other."""

    made_of: str = Field(pattern="^[0-9a-f]{64}$")  # SHA-256 of the checkpoint without the graph
    graph: str = Field(pattern="^[0-9a-f]{64}$")  # SHA-256 of the graphs
    weights: tuple[str, ...]  # names of the tensors that it takes from the checkpoint
    first: int | None = Field(ge=0)  # bytes of the first, where there are two; older graphs do not say, and are not used
    views_weights: tuple[str, ...]  # names of the tensors that the second takes


@dataclass(frozen=True)
class _Layout:
    header: dict[str, Any]
    start: int  # where the tensors' bytes begin in the file
    length: int  # bytes of all tensors but the graph

    @property
    def has_graph(self) -> bool:
        return GRAPH in self.header


def digest_checkpoint(path: Path) -> str:
    """Return the SHA-256 of a file without its graph: with and without it stands for the same vectors.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    layout = _read_layout(path)
    if layout is None or not layout.has_graph:
        return digest_file(path)
    with open_regular(path) as file:
        return _digest_without_graph(file, layout)


def read_graph(path: Path) -> Graph | None:
    """Return the graph of a checkpoint; None where it holds none that is whole and was made of these weights.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    layout = _read_layout(path)
    if layout is None or not layout.has_graph:
        return None
    try:
        notes = GraphNotes.model_validate_json(layout.header[METADATA][GRAPH])
    except ValidationError:
        return None
    with open_regular(path) as file:
        if _digest_without_graph(file, layout) != notes.made_of:
            return None
        content = file.read()
    if hashlib.sha256(content).hexdigest() != notes.graph:
        return None
    try:
        tensors = read_float_tensors(path)
        weights, views_weights = ({name: tensors[name] for name in names} for names in (notes.weights, notes.views_weights))
        views = None if notes.first is None else Graph(content[notes.first :], views_weights)
        return Graph(content[: notes.first], weights, views)
    except (KeyError, TypeError, ValueError):  # the file was not written here
        return None


def write_graph(path: Path, graph: bytes, weights: tuple[str, ...], views: tuple[bytes, tuple[str, ...]] | None = None) -> None:
    """Add a graph to a checkpoint, in place of one that it holds.

    Args:
        path: The checkpoint, a file of safetensors.
        graph: The graph.
        weights: Names of the tensors that it takes from the checkpoint.
        views: The same of the graph for views; None where views need none of their own.

    Raises:
        UserError: The disk is full.
    """
    path, (more, views_weights) = path.resolve(), views or (b"", ())
    content = graph + more
    layout = _read_layout(path)
    assert layout is not None
    with open_regular(path) as file:
        notes = GraphNotes(
            made_of=_digest_without_graph(file, layout),
            graph=hashlib.sha256(content).hexdigest(),
            weights=weights,
            first=None if views is None else len(graph),
            views_weights=views_weights,
        )
        header = _without_graph(layout.header)
        header[METADATA] = {**header.get(METADATA, {}), GRAPH: notes.model_dump_json()}
        header[GRAPH] = {
            "dtype": "U8",
            "shape": [len(content)],
            "data_offsets": [layout.length, layout.length + len(content)],
        }
        with whole_file(path) as temporary, temporary.open("wb") as output:
            output.write(_encode(header))
            file.seek(layout.start)
            output.writelines(_read_blocks(file, layout.length))
            output.write(content)
            shutil.copymode(path, temporary)


def read_float_tensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the float32 tensors of a checkpoint by name, mapped, not read.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    layout = _read_layout(path)
    if layout is None or layout.length == 0:
        return {}
    data = np.memmap(path, np.uint8, "r", layout.start)
    floats = {name: about for name, about in layout.header.items() if name != METADATA and about["dtype"] == "F32"}
    return {name: data[slice(*about["data_offsets"])].view(np.float32).reshape(about["shape"]) for name, about in floats.items()}


def _read_layout(path: Path) -> _Layout | None:
    """Return how a file of safetensors is laid out; None for others, and where a graph is not the last or has no notes."""
    with open_regular(path) as file:
        size = path.stat().st_size
        header_bytes = int.from_bytes(file.read(ALIGNMENT), "little")
        if header_bytes > min(MAX_HEADER_BYTES, size - ALIGNMENT):
            return None
        try:
            header = json.loads(file.read(header_bytes))
            notes = dict(header.get(METADATA, {}))
            places = {name: tuple(map(index, about["data_offsets"])) for name, about in header.items() if name != METADATA}
            length = max((end for name, (_, end) in places.items() if name != GRAPH), default=0)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
    start, graph = ALIGNMENT + header_bytes, places.get(GRAPH)
    if graph is not None and (GRAPH not in notes or graph != (length, size - start)):
        return None
    return _Layout(header, start, length)


def _without_graph(header: dict[str, Any]) -> dict[str, Any]:
    kept = {name: about for name, about in header.items() if name != GRAPH}
    if METADATA in kept:
        kept[METADATA] = {key: text for key, text in kept[METADATA].items() if key != GRAPH}
    return kept


def _encode(header: dict[str, Any]) -> bytes:
    """Return the head of a file as safetensors writes it."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(ALIGNMENT, "little") + text


def _digest_without_graph(file: BinaryIO, layout: _Layout) -> str:
    """Return the SHA-256 of a file without its graph, at whose first byte it is left."""
    digest = hashlib.sha256(_encode(_without_graph(layout.header)))
    file.seek(layout.start)
    for block in _read_blocks(file, layout.length):
        digest.update(block)
    return digest.hexdigest()


def _read_blocks(file: BinaryIO, count: int) -> Iterator[bytes]:
    while count and (block := file.read(min(count, BLOCK_BYTES))):
        yield block
        count -= len(block)
