"""The graph beside a checkpoint gives torch's vectors without torch, and changes nothing else."""

import shutil
from collections import Counter
from collections.abc import Callable
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
from torch import nn

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.squares import decode_square, resize_square
from image_copies.models.inference import graph, onnx_export
from image_copies.models.inference.embedders import SAME_VECTORS, Squares
from image_copies.models.inference.graph import GRAPH, VIEWS, list_graphs, open_network
from image_copies.models.inference.onnx_embedder import open_onnx
from image_copies.models.inference.onnx_export import Exported, add_graph, export_onnx, largest_difference
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.inference.torch_embedder import load_embedder
from image_copies.models.network.backbones import BACKBONES
from image_copies.models.network.base import Backbone
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.description import OLD_GRAPH
from image_copies.models.network.handmade import HandmadeDescriptor
from image_copies.models.network.joined import JoinedDescriptor, reduce_for_views
from image_copies.models.network.settings import HandmadeSettings, JoinedSettings, MemberSettings
from image_copies.models.network.weights_file import read_weights_file
from image_copies.models.shipped import SHIPPED
from tests.networks import make_small
from tests.pictures import write_images

SETTINGS = EmbeddingSettings()
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
    before = path.read_bytes()
    path.with_suffix(VIEWS).write_bytes(b"of earlier weights")
    add_graph(path)
    assert path.read_bytes() == before and list_graphs(path) == [path.with_suffix(GRAPH)]
    return path


@pytest.fixture(scope="module")
def whole(checkpoint: Path) -> Path:
    """The network of the checkpoint with its weights."""
    export_onnx([(load_descriptor(checkpoint), SETTINGS)], None, {}, checkpoint.with_name("whole.onnx"))
    return checkpoint.with_name("whole.onnx")


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Squares:
    """Pictures at the size that what ships takes; every third one has a plain margin, as screenshots and scans do."""
    images = write_images(tmp_path_factory.mktemp("pictures"), 24, seed=3)
    (side,) = open_network(SHIPPED, SETTINGS).sizes
    pictures = [resize_square(decode_rgb(path), side) for path in images.paths]
    for picture in pictures[::3]:
        picture[:, :30] = 255
    return {side: np.stack(pictures).transpose(0, 3, 1, 2)}


def test_what_ships_has_torch_s_vectors_without_torch_the_same_bits_in_any_batch(squares: Squares) -> None:
    """The exporter's rewriting rules dropped a 1e-12: pictures with plain areas differed by 3e-4."""
    without, by_torch = open_network(SHIPPED, SETTINGS), load_embedder(SHIPPED, SETTINGS)
    assert without.embed.__module__.endswith("onnx_embedder") and without.dimensions == by_torch.dimensions == 256
    assert np.abs(without.embed(squares) - by_torch.embed(squares)).max() < SAME_VECTORS / 5
    reduced = {128: np.ascontiguousarray(squares[160][:, :, :128, :128])}
    assert (without.for_views().embed(reduced) * by_torch.for_views().embed(reduced)).sum(axis=1).mean() > 0.99
    network = open_network(SHIPPED, SETTINGS)
    together = network.embed(squares)
    for part in (slice(0, 1), slice(3, 20), slice(8, 24)):
        assert np.array_equal(network.embed({side: pixels[part] for side, pixels in squares.items()}), together[part])
    content = SHIPPED.with_suffix(GRAPH).read_bytes()
    assert len(content) < SHIPPED.stat().st_size / 20
    assert str(Path(__file__).parents[3]).encode() not in content and b"site-packages" not in content


def test_a_dropped_constant_is_seen_when_a_graph_is_written(checkpoint: Path, whole: Path, tmp_path: Path) -> None:
    module = Exported([(load_descriptor(checkpoint), SETTINGS)], None).eval()
    assert largest_difference(module, open_network(checkpoint, SETTINGS)) < SAME_VECTORS
    model = ir.load(whole)
    optimizer.optimize(model)
    ir.save(model, tmp_path / "rewritten.onnx")
    assert largest_difference(module, open_onnx(tmp_path / "rewritten.onnx")) > 1e-4


def test_photographs_are_compared_too(checkpoint: Path, tmp_path: Path) -> None:
    module = Exported([(load_descriptor(checkpoint), SETTINGS)], None).eval()
    network = open_network(checkpoint, SETTINGS)
    (photograph,) = write_images(tmp_path, 1, seed=4).paths
    pixels, _ = decode_square(photograph, 64)

    def embed(squares: Squares) -> NDArray[np.float32]:
        vectors = network.embed(squares)
        vectors[(squares[64] == pixels).all(axis=(1, 2, 3))] += 1
        return vectors

    wrong = replace(network, embed=embed)
    assert largest_difference(module, wrong) < SAME_VECTORS
    assert largest_difference(module, wrong, [photograph]) > 0.5


def check_that_torch_is_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(OPENED_BY_TORCH, lambda path, settings: opened.append(path))
    open_network(path, SETTINGS)
    assert opened == [path]
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="cannot be used without torch: no graph of its weights is beside it"):
        open_network(path, SETTINGS)


def change_graph(graph: Path) -> None:
    graph.write_bytes(graph.read_bytes()[:1000])


def change_weights(graph: Path) -> None:
    checkpoint = graph.with_name("gabor.safetensors")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1] + b"!")


def rename_checkpoint(graph: Path) -> None:
    graph.with_name("gabor.safetensors").rename(graph.with_name("moved.safetensors"))
    graph.rename(graph.with_name("moved.graph.onnx"))


def put_whole(graph: Path) -> None:
    graph.with_name("whole.onnx").replace(graph)


@pytest.mark.parametrize("change", [change_graph, change_weights, rename_checkpoint, put_whole, Path.unlink])
def test_a_graph_that_is_damaged_or_of_other_weights_is_not_used(
    checkpoint: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    for path in (checkpoint, whole, *list_graphs(checkpoint)):
        shutil.copy(path, tmp_path)
    change(tmp_path / "gabor.graph.onnx")
    (path,) = tmp_path.glob("*.safetensors")
    check_that_torch_is_needed(path, monkeypatch)


def test_checkpoints_of_earlier_versions_hold_a_graph_that_is_no_weight(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.safetensors"
    with safe_open(checkpoint, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        save_file(tensors | {OLD_GRAPH: torch.zeros(9, dtype=torch.uint8)}, path, file.metadata())
    assert load_descriptor(path).descriptor.state_dict().keys() == read_weights_file(path).keys() == tensors.keys()


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


def build_pooled(arguments: dict[str, object], pretrained: bool) -> Backbone:
    """A convolution, a pool and a convolution of what it gives."""
    layers = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.ReLU(), nn.AvgPool2d(2, 2), nn.Conv2d(8, 12, 1))
    return Backbone(layers, nn.Module.__call__, 12, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two networks with pools, joined, for pictures of 64 pixels; their weights are in half precision."""
    monkeypatch.setitem(BACKBONES, "pooled", build_pooled)
    torch.manual_seed(0)
    members = [make_small(backbone="pooled").eval() for _ in range(2)]
    about = tuple(MemberSettings(descriptor=member.settings, image_size=64, flips=True) for member in members)
    joined = JoinedDescriptor(JoinedSettings(members=about, dimensions=8), list(members))
    joined.projection_axes.normal_()
    save_descriptor(tmp_path / "two.safetensors", joined, 64, {}, halved=True)
    return tmp_path / "two.safetensors"


@pytest.mark.parametrize(("least", "in_whole_numbers"), [(0.99, True), (1.1, False)])
def test_views_are_embedded_in_whole_numbers_where_little_is_lost(
    two: Path, monkeypatch: pytest.MonkeyPatch, least: float, in_whole_numbers: bool
) -> None:
    monkeypatch.setattr(onnx_export, "MIN_LIKENESS", least)
    add_graph(two)
    views = two.with_suffix(VIEWS)
    kinds = Counter(node.op_type for node in onnx.load(views, load_external_data=False).graph.node)
    assert kinds["Conv"] == 4  # a mirror image would be another pass
    assert (kinds["QuantizeLinear"] > 0) == in_whole_numbers and (kinds["AveragePool"] == 0) == in_whole_numbers
    pixels = {64: np.random.default_rng(0).integers(0, 256, (9, 3, 8, 8)).repeat(8, axis=2).repeat(8, axis=3).astype(np.uint8)}
    vectors, expected = (open_it(two, SETTINGS).for_views().embed(pixels) for open_it in (open_network, load_embedder))
    cosines = (vectors * expected).sum(axis=1)
    assert cosines.mean() > 0.99 and (np.abs(vectors - expected).max() < SAME_VECTORS) == (not in_whole_numbers)
    assert np.array_equal(open_network(two, SETTINGS).for_views().embed({64: pixels[64][2:5]}), vectors[2:5])


def test_weights_in_half_precision_stay_the_checkpoint_s(two: Path) -> None:
    before, pixels = two.read_bytes(), {64: np.random.default_rng(0).integers(0, 256, (9, 3, 64, 64)).astype(np.uint8)}
    assert add_graph(two) < SAME_VECTORS and two.read_bytes() == before
    graph = onnx.load(two.with_suffix(GRAPH), load_external_data=False).graph
    halves = [value for value in graph.initializer if value.data_type == onnx.TensorProto.FLOAT16]
    assert len(halves) >= 4 and all(value.external_data[0].value == two.name for value in halves)
    vectors, expected = (open_it(two, SETTINGS).embed(pixels) for open_it in (open_network, load_embedder))
    assert np.abs(vectors - expected).max() < SAME_VECTORS


def test_a_damaged_graph_of_views_is_not_used(two: Path) -> None:
    add_graph(two)
    two.with_suffix(VIEWS).write_bytes(two.with_suffix(VIEWS).read_bytes()[:500])
    network = open_network(two, SETTINGS)
    assert network.for_views() is not network and network.for_views().sizes == network.sizes == (64,)


def test_views_are_smaller_than_what_is_embedded_whole() -> None:
    assert [reduce_for_views(side) for side in (16, 32, 64, 96, 128, 160, 224, 512)] == [16, 32, 64, 64, 96, 128, 192, 416]


def test_a_network_with_depthwise_convolutions_embeds_still_smaller_views_in_floats(two: Path) -> None:
    joined = load_descriptor(two).descriptor
    assert isinstance(joined, JoinedDescriptor)
    joined.members[1] = make_small(backbone="test_efficientnet").eval()
    about = joined.settings.members[1].model_copy(update={"descriptor": joined.members[1].settings})
    joined.settings = joined.settings.model_copy(update={"members": (joined.settings.members[0], about)})
    assert [member.image_size for member in joined.for_views().settings.members] == [64, 32]
    save_descriptor(two, joined, 64, {})
    add_graph(two)
    graph = onnx.load(two.with_suffix(VIEWS), load_external_data=False).graph
    whole = [value.name for value in graph.initializer if value.name.endswith("_quantized")]
    assert whole and all("members.0" in name for name in whole)
    assert two.with_suffix(VIEWS).stat().st_size < two.stat().st_size  # which has the other weights


def test_a_single_network_embeds_views_as_it_does_pictures(checkpoint: Path) -> None:
    network = open_network(checkpoint, SETTINGS)
    assert network.for_views() is network
