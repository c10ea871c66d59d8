"""A checkpoint's graph gives torch's vectors without torch; one that does not belong to it is not used."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from onnxscript import ir, optimizer

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.procedural.sample import write_pictures
from image_copies.data.squares import decode_square, resize_square
from image_copies.models.inference import graph
from image_copies.models.inference.embedders import SAME_VECTORS, Squares
from image_copies.models.inference.graph import graph_path, open_network
from image_copies.models.inference.onnx_embedder import open_onnx, open_session
from image_copies.models.inference.onnx_export import Exported, export_graph, largest_difference
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.inference.torch_embedder import load_embedder
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.handmade import HandmadeDescriptor
from image_copies.models.network.settings import HandmadeSettings
from image_copies.models.shipped import SHIPPED

SETTINGS = EmbeddingSettings()
SIDE = 128  # pixels
OPENED_BY_TORCH = "image_copies.models.inference.torch_embedder.load_embedder"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPY_DETECTION_DEVICE", "cpu")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "gabor.safetensors"
    torch.manual_seed(0)
    descriptor = HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=16))
    descriptor.whitening_matrix.normal_(0, 100)
    save_descriptor(path, descriptor, 64, {})
    export_graph(path)
    return path


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Squares:
    """Pictures at the size that what ships takes; every third one has a plain margin, as screenshots and scans do."""
    folder = tmp_path_factory.mktemp("pictures")
    list(write_pictures(folder, "T", 24, seed=3, workers=1))
    pictures = [resize_square(decode_rgb(path), SIDE) for path in sorted(folder.iterdir())]
    for picture in pictures[::3]:
        picture[:, :30] = 255
    return {SIDE: np.stack(pictures).transpose(0, 3, 1, 2)}


def test_what_ships_has_torch_s_vectors_without_torch(squares: Squares) -> None:
    """The exporter's rewriting rules dropped a 1e-12: pictures with plain areas differed by 3e-4."""
    without, by_torch = open_network(SHIPPED, SETTINGS), load_embedder(SHIPPED, SETTINGS)
    assert without.embed.__module__.endswith("onnx_embedder") and without.dimensions == by_torch.dimensions == 256
    assert np.abs(without.embed(squares) - by_torch.embed(squares)).max() < SAME_VECTORS / 5


def test_a_vector_has_the_same_bits_in_any_batch(squares: Squares) -> None:
    network = open_network(SHIPPED, SETTINGS)
    together = network.embed(squares)
    for part in (slice(0, 1), slice(3, 20), slice(8, 24)):
        assert np.array_equal(network.embed({SIDE: squares[SIDE][part]}), together[part])


def test_a_dropped_constant_is_seen_when_a_graph_is_written(checkpoint: Path, tmp_path: Path) -> None:
    module = Exported([(load_descriptor(checkpoint), SETTINGS)], None).eval()
    assert largest_difference(module, open_session(graph_path(checkpoint)).embedder) < SAME_VECTORS
    shutil.copy(checkpoint, tmp_path)
    model = ir.load(graph_path(checkpoint))
    optimizer.optimize(model)
    ir.save(model, tmp_path / "rewritten.onnx")
    assert largest_difference(module, open_session(tmp_path / "rewritten.onnx").embedder) > 1e-4


def test_photographs_are_compared_too(checkpoint: Path, tmp_path: Path) -> None:
    module = Exported([(load_descriptor(checkpoint), SETTINGS)], None).eval()
    network = open_session(graph_path(checkpoint)).embedder
    (photograph,) = write_pictures(tmp_path, "T", 1, seed=4, workers=1)
    pixels, _ = decode_square(photograph, 64)

    def embed(squares: Squares) -> NDArray[np.float32]:
        vectors = network.embed(squares)
        vectors[(squares[64] == pixels).all(axis=(1, 2, 3))] += 1
        return vectors

    wrong = replace(network, embed=embed)
    assert largest_difference(module, wrong) < SAME_VECTORS
    assert largest_difference(module, wrong, [photograph]) > 0.5


def test_the_weights_stay_in_the_checkpoint_and_nothing_tells_of_this_machine(checkpoint: Path) -> None:
    content = graph_path(SHIPPED).read_bytes()
    assert len(content) < SHIPPED.stat().st_size / 30
    assert str(Path(__file__).parents[3]).encode() not in content and b"site-packages" not in content
    with pytest.raises(UserError, match="it keeps weights in external files"):
        open_onnx(graph_path(checkpoint))


def test_a_graph_of_another_state_is_not_used(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "gabor.safetensors"
    torch.manual_seed(1)
    save_descriptor(other, HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=16)), 64, {})
    shutil.copy(graph_path(checkpoint), tmp_path)
    opened: list[Path] = []
    monkeypatch.setattr(OPENED_BY_TORCH, lambda path, settings: opened.append(path))
    open_network(other, SETTINGS)
    graph_path(other).write_bytes(b"no graph")
    open_network(other, SETTINGS)
    graph_path(other).unlink()
    open_network(other, SETTINGS)
    assert opened == [other] * 3
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="cannot be used without torch: it has no graph next to it"):
        open_network(other, SETTINGS)
    shutil.copy(graph_path(checkpoint), tmp_path)
    with pytest.raises(UserError, match=r"cannot be used without torch: .* was made for another state of it"):
        open_network(other, SETTINGS)


def test_torch_is_used_where_it_has_a_gpu(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(OPENED_BY_TORCH, lambda path, settings: opened.append(path))
    monkeypatch.setenv("COPY_DETECTION_DEVICE", "cuda")
    open_network(checkpoint, SETTINGS)
    assert opened == [checkpoint]
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    assert open_network(checkpoint, SETTINGS).dimensions == 16
