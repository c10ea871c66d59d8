"""The graph in a checkpoint gives torch's vectors without torch, and changes nothing else."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnxscript import ir, optimizer
from safetensors import safe_open
from safetensors.torch import save_file

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.procedural.sample import write_pictures
from image_copies.data.squares import decode_square, resize_square
from image_copies.models.inference import graph
from image_copies.models.inference.embedders import SAME_VECTORS, Squares
from image_copies.models.inference.graph import open_network
from image_copies.models.inference.onnx_embedder import open_onnx, open_session
from image_copies.models.inference.onnx_export import Exported, add_graph, export_onnx, largest_difference
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.inference.torch_embedder import load_embedder
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.handmade import HandmadeDescriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.models.network.settings import HandmadeSettings, JoinedSettings, MemberSettings
from image_copies.models.network.stored_graph import GRAPH, digest_checkpoint, read_graph
from image_copies.models.network.weights_file import read_weights_file
from image_copies.models.shipped import SHIPPED

SETTINGS = EmbeddingSettings()
OPENED_BY_TORCH = "image_copies.models.inference.torch_embedder.load_embedder"


def count_convolutions(content: bytes) -> int:
    return Counter(node.op_type for node in onnx.load_model_from_string(content).graph.node)["Conv"]


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
    add_graph(path)
    return path


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Squares:
    """Pictures at the size that what ships takes; every third one has a plain margin, as screenshots and scans do."""
    folder = tmp_path_factory.mktemp("pictures")
    list(write_pictures(folder, "T", 24, seed=3, workers=1))
    (side,) = open_network(SHIPPED, SETTINGS).sizes
    pictures = [resize_square(decode_rgb(path), side) for path in sorted(folder.iterdir())]
    for picture in pictures[::3]:
        picture[:, :30] = 255
    return {side: np.stack(pictures).transpose(0, 3, 1, 2)}


def test_what_ships_has_torch_s_vectors_without_torch(squares: Squares) -> None:
    """The exporter's rewriting rules dropped a 1e-12: pictures with plain areas differed by 3e-4."""
    without, by_torch = open_network(SHIPPED, SETTINGS), load_embedder(SHIPPED, SETTINGS)
    assert without.embed.__module__.endswith("onnx_embedder") and without.dimensions == by_torch.dimensions == 256
    assert np.abs(without.embed(squares) - by_torch.embed(squares)).max() < SAME_VECTORS / 5


def test_a_vector_has_the_same_bits_in_any_batch(squares: Squares) -> None:
    network = open_network(SHIPPED, SETTINGS)
    together = network.embed(squares)
    for part in (slice(0, 1), slice(3, 20), slice(8, 24)):
        assert np.array_equal(network.embed({side: pixels[part] for side, pixels in squares.items()}), together[part])


def test_a_dropped_constant_is_seen_when_a_graph_is_written(checkpoint: Path, tmp_path: Path) -> None:
    module = Exported([(load_descriptor(checkpoint), SETTINGS)], None).eval()
    assert largest_difference(module, open_network(checkpoint, SETTINGS)) < SAME_VECTORS
    export_onnx([(load_descriptor(checkpoint), SETTINGS)], None, {}, tmp_path / "whole.onnx")
    model = ir.load(tmp_path / "whole.onnx")
    optimizer.optimize(model)
    ir.save(model, tmp_path / "rewritten.onnx")
    assert largest_difference(module, open_onnx(tmp_path / "rewritten.onnx")) > 1e-4


def test_photographs_are_compared_too(checkpoint: Path, tmp_path: Path) -> None:
    module = Exported([(load_descriptor(checkpoint), SETTINGS)], None).eval()
    network = open_network(checkpoint, SETTINGS)
    (photograph,) = write_pictures(tmp_path, "T", 1, seed=4, workers=1)
    pixels, _ = decode_square(photograph, 64)

    def embed(squares: Squares) -> NDArray[np.float32]:
        vectors = network.embed(squares)
        vectors[(squares[64] == pixels).all(axis=(1, 2, 3))] += 1
        return vectors

    wrong = replace(network, embed=embed)
    assert largest_difference(module, wrong) < SAME_VECTORS
    assert largest_difference(module, wrong, [photograph]) > 0.5


def test_weights_are_held_once_and_nothing_tells_of_this_machine(checkpoint: Path) -> None:
    """The graph is stored in whole bytes, without a weight."""
    with safe_open(SHIPPED, framework="numpy") as file:
        content = file.get_tensor(GRAPH).tobytes()
    assert len(content) < SHIPPED.stat().st_size / 20
    assert str(Path(__file__).parents[3]).encode() not in content and b"site-packages" not in content
    with safe_open(checkpoint, framework="numpy") as file, pytest.raises(UserError, match="keeps weights in external files"):
        open_session(checkpoint, file.get_tensor(GRAPH).tobytes())


def test_a_graph_changes_neither_identity_nor_weights(checkpoint: Path, tmp_path: Path) -> None:
    """Indexes that were made before stay usable; a second graph replaces the first."""
    path = tmp_path / "other.safetensors"
    torch.manual_seed(2)
    save_descriptor(path, HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=16)), 64, {"stage": 1})
    before, identity, without = path.read_bytes(), digest_checkpoint(path), load_descriptor(path)
    for _ in range(2):
        add_graph(path)
        assert path.read_bytes() != before and digest_checkpoint(path) == identity != digest_checkpoint(checkpoint)
    opened = load_descriptor(path)
    assert opened.notes == {"stage": 1} and opened.descriptor.state_dict().keys() == without.descriptor.state_dict().keys()
    assert all(tensor.equal(opened.descriptor.state_dict()[name]) for name, tensor in without.descriptor.state_dict().items())
    assert read_weights_file(path).keys() == without.descriptor.state_dict().keys()


def check_that_torch_is_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(OPENED_BY_TORCH, lambda path, settings: opened.append(path))
    open_network(path, SETTINGS)
    assert opened == [path]
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="cannot be used without torch: it holds no graph of its weights"):
        open_network(path, SETTINGS)


def test_torch_or_a_graph_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gabor.safetensors"
    save_descriptor(path, HandmadeDescriptor(HandmadeSettings(kind="gabor", dimensions=16)), 64, {})
    check_that_torch_is_needed(path, monkeypatch)


def change(checkpoint: Path, path: Path, name: str, tensor: torch.Tensor, notes: str | None = None) -> Path:
    """Write a checkpoint with another tensor and, where given, other notes on its graph."""
    with safe_open(checkpoint, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors | {name: tensor}, path, metadata | ({} if notes is None else {GRAPH: notes}))
    return path


@pytest.mark.parametrize(
    ("name", "tensor", "notes"),
    [
        ("whitening_matrix", torch.zeros(16, 512), None),  # the graph was made of other weights
        (GRAPH, torch.tensor(list(b"no graph"), dtype=torch.uint8), None),
        (GRAPH, torch.zeros(0, dtype=torch.uint8), None),
        ("more", torch.zeros(3), None),
        ("more", torch.zeros(3), "{}"),
        ("more", torch.zeros(3), "no JSON"),
    ],
)
def test_a_graph_that_is_damaged_or_of_other_weights_is_not_used(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, tensor: torch.Tensor, notes: str | None
) -> None:
    path = change(checkpoint, tmp_path / "changed.safetensors", name, tensor, notes)
    assert (digest_checkpoint(path) == digest_checkpoint(checkpoint)) is (name == GRAPH)
    check_that_torch_is_needed(path, monkeypatch)


@pytest.mark.parametrize("bytes_left", [0, 4, 100, -10])
def test_without_torch_a_damaged_checkpoint_is_called_damaged(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_left: int
) -> None:
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    path = tmp_path / "cut.safetensors"
    with pytest.raises(UserError, match="no such checkpoint"):
        open_network(path, SETTINGS)
    path.write_bytes(checkpoint.read_bytes()[:bytes_left])
    with pytest.raises(UserError, match=r"cut\.safetensors is not a safetensors file"):
        open_network(path, SETTINGS)


def test_torch_is_used_where_it_has_a_gpu(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(OPENED_BY_TORCH, lambda path, settings: opened.append(path))
    monkeypatch.setenv("COPY_DETECTION_DEVICE", "cuda")
    open_network(checkpoint, SETTINGS)
    assert opened == [checkpoint]
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    assert open_network(checkpoint, SETTINGS).dimensions == 16


@pytest.mark.parametrize("flips", [False, True])
@pytest.mark.parametrize("views", [False, True])
def test_the_mean_stands_for_members_that_embed_no_views(tmp_path: Path, flips: bool, views: bool) -> None:
    """The file with two members gives, for views, what the first alone and the mean of the second give."""
    about = HandmadeSettings(kind="gabor", dimensions=16)
    members = (
        MemberSettings(descriptor=about, image_size=64),
        MemberSettings(descriptor=about, image_size=64, flips=flips, views=views),
    )
    torch.manual_seed(1)
    descriptors = [HandmadeDescriptor(about) for _ in members]
    joined = JoinedDescriptor(JoinedSettings(members=members, dimensions=8), [*descriptors])
    for tensor in (*(each.whitening_matrix for each in descriptors), joined.projection_mean, joined.projection_axes):
        tensor.normal_()
    path = tmp_path / "joined.safetensors"
    save_descriptor(path, joined, 64, {})
    add_graph(path)
    stored = read_graph(path)
    assert stored is not None and (stored.views is None) is (views and not flips)
    if stored.views is not None:  # a mirror image is another pass
        whole, of_views = (count_convolutions(each.content) for each in (stored, stored.views))
        assert whole / of_views == (2 + flips) / (1 + views)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 64, 64)).astype(np.uint8)
    first, second = (each(torch.from_numpy(pixels) / 255) for each in descriptors)
    parts = torch.cat([first, second if views else joined.projection_mean[16:].expand(3, -1)], dim=1)
    expected = torch.nn.functional.normalize((parts - joined.projection_mean) @ joined.projection_axes.T).numpy()
    for network in (open_network(path, SETTINGS), load_embedder(path, SETTINGS)):
        assert np.abs(network.embed_alone({64: pixels}) - expected).max() < SAME_VECTORS
        assert np.array_equal(network.embed({64: pixels}), network.embed_alone({64: pixels})) is (views and not flips)


def test_a_single_network_embeds_views_as_it_does_pictures(checkpoint: Path) -> None:
    stored = read_graph(checkpoint)
    assert stored is not None and stored.views is None
    pixels = {64: np.random.default_rng(0).integers(0, 256, (2, 3, 64, 64)).astype(np.uint8)}
    network = open_network(checkpoint, SETTINGS)
    assert np.array_equal(network.embed_alone(pixels), network.embed(pixels))
