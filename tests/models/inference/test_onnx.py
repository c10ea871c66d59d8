"""An ONNX file gives what torch gives, for any number of images, and says what it takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnxscript import ir

from image_copies.data.errors import UserError
from image_copies.models.inference.embed import embed_batch
from image_copies.models.inference.onnx_embedder import open_onnx
from image_copies.models.inference.onnx_export import Exported, LinearMap, export_onnx, largest_difference
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.backbones import BACKBONES
from image_copies.models.network.checkpoint import Checkpoint, require_trained_network
from image_copies.models.network.descriptor import Descriptor
from tests.networks import build_edges, make_small
from tests.onnx_files import write_means

SETTINGS = EmbeddingSettings(flip=True, pooling_exponent=4.0)


@pytest.fixture(scope="module")
def checkpoints() -> list[Checkpoint]:
    """Rotations each with a head of its own at 48 pixels, learnt whitening at 32."""
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(BACKBONES, "edges", build_edges)
        first = make_small(backbone="edges", domains="split")
        second = make_small(backbone="edges", dimensions=8, whiten=True)
    second.whitening_mean.copy_(torch.randn(8) / 8)
    second.whitening_matrix.copy_(torch.randn(8, 8))
    return [Checkpoint(first, 48, {}), Checkpoint(second, 32, {})]


def both(checkpoints: list[Checkpoint]) -> list[tuple[Checkpoint, EmbeddingSettings]]:
    """Only the second one also sees mirror images."""
    return list(zip(checkpoints, (SETTINGS.model_copy(update={"flip": False}), SETTINGS), strict=True))


@pytest.fixture(scope="module")
def projection() -> LinearMap:
    rng = np.random.default_rng(0)
    return LinearMap(*(rng.standard_normal(shape).astype(np.float32) for shape in (24, (24, 10))))


@pytest.fixture(scope="module")
def exported(checkpoints: list[Checkpoint], projection: LinearMap, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "both.onnx"
    difference = export_onnx(both(checkpoints), projection, {"models": ["first", "second"]}, path)
    assert 0 < difference <= 1e-4
    return path


def normal(pixels: torch.Tensor, descriptor: Descriptor) -> torch.Tensor:
    return (pixels / 255 - torch.tensor(descriptor.mean)[:, None, None]) / torch.tensor(descriptor.std)[:, None, None]


@pytest.mark.parametrize("count", [1, 4, 7])
def test_all_models_and_the_projection_as_torch_gives_them(
    exported: Path, checkpoints: list[Checkpoint], projection: LinearMap, count: int
) -> None:
    squares = {size: torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8) for size in (32, 48)}
    parts = []
    for checkpoint in checkpoints:
        descriptor, size = require_trained_network(checkpoint, exported).eval(), checkpoint.image_size
        descriptor.pool_with(4.0)
        parts.append(embed_batch(descriptor, normal(squares[size], descriptor), flip=size == 32).numpy())
    expected = (np.concatenate(parts, axis=1) - projection.mean) @ projection.axes
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    network = open_onnx(exported)
    assert network.sizes == (32, 48) and network.dimensions == 10
    assert np.abs(network.embed({size: square.numpy() for size, square in squares.items()}) - expected).max() <= 1e-4


def test_the_file_says_how_its_input_is_made_and_differences_are_seen(
    exported: Path, checkpoints: list[Checkpoint], projection: LinearMap
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    metadata = onnxruntime.InferenceSession(exported.read_bytes()).get_modelmeta().custom_metadata_map
    description = json.loads(metadata["description"])
    assert description["sizes"] == [32, 48] and description["notes"] == {"models": ["first", "second"]}
    assert "INTER_AREA" in description["preprocessing"]
    other = LinearMap(projection.mean, projection.axes[:, ::-1].copy())
    assert largest_difference(Exported(both(checkpoints), other), open_onnx(exported)) > 1e-2


@pytest.mark.parametrize("difference", [1.1e-4, float("nan")])
def test_what_differs_from_torch_is_not_written(
    exported: Path, checkpoints: list[Checkpoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, difference: float
) -> None:
    monkeypatch.setattr("image_copies.models.inference.onnx_export._make_graph", lambda module: ir.load(exported))
    monkeypatch.setattr("image_copies.models.inference.onnx_export.largest_difference", lambda *given: difference)
    with pytest.raises(UserError, match=r"differs from torch by .*, more than 0\.0001; nothing was written"):
        export_onnx(both(checkpoints), None, {}, tmp_path / "one.onnx")
    assert not list(tmp_path.iterdir())


def test_files_of_other_kinds_are_refused(tmp_path: Path, exported: Path) -> None:
    with pytest.raises(UserError, match="no such ONNX file"):
        open_onnx(tmp_path / "none.onnx")
    (tmp_path / "cut.onnx").write_bytes(exported.read_bytes()[:1000])
    with pytest.raises(UserError, match="not an ONNX file that can be run"):
        open_onnx(tmp_path / "cut.onnx")


BYTES, FLOATS, HALVES = onnx.TensorProto.UINT8, onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


@pytest.mark.parametrize(
    ("kind", "shape", "size", "gets"),
    [
        (BYTES, ("n", 3, 32, 32), None, 32),
        (BYTES, ("n", "h", "w", 3), None, 288),
        (BYTES, ("n", "h", "w", 3), 48, 48),
        (FLOATS, ("n", 3, 32, 32), 32, 32),
        (HALVES, ("n", 32, 32, 3), None, 32),
    ],
)
def test_any_network_is_opened(tmp_path: Path, kind: int, shape: tuple[int | str, ...], size: int | None, gets: int) -> None:
    path = write_means(tmp_path / "any.onnx", kind, shape, (1, 2) if shape[3] == 3 else (2, 3))
    network = open_onnx(path, size=size)
    squares = np.random.default_rng(0).integers(0, 256, (3, 3, gets, gets)).astype(np.uint8)
    means = squares.mean(axis=(2, 3))
    if kind != BYTES:
        means = (means / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    assert network.sizes == (gets,) and network.dimensions == 3
    assert np.abs(network.embed({gets: squares}) - expected).max() < (2e-2 if kind == HALVES else 1e-5)


@pytest.mark.parametrize(
    ("kind", "shape", "axes", "size", "message"),
    [
        (onnx.TensorProto.INT64, ("n", 3, 32, 32), (2, 3), None, r"takes pixels, tensor\(int64\) .*any number of pictures"),
        (FLOATS, ("n", 1, 32, 32), (2, 3), None, "expected any number of pictures"),
        (FLOATS, (4, 3, 32, 32), (2, 3), None, "any number of pictures"),
        (FLOATS, ("n", 3, 32, 64), (2, 3), None, "expected any number of pictures"),
        (FLOATS, ("n", 3, 32, 32), (2, 3), 48, "takes squares of 32 pixels, not of 48"),
        (FLOATS, ("n", 3, 32, 32), (3,), None, r"expected vectors \[n, d\] of a known dimension"),
    ],
)
def test_networks_of_other_kinds_are_refused(
    tmp_path: Path, kind: int, shape: tuple[int | str, ...], axes: tuple[int, ...], size: int | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        open_onnx(write_means(tmp_path / "other.onnx", kind, shape, axes), size=size)


def test_weights_in_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were sought in the current folder."""
    monkeypatch.chdir(tmp_path)
    weights = onnx.numpy_helper.from_array(np.ones(1000, np.float32), "weights")
    sides = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1000]) for name in ("a", "b")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["a", "weights"], ["b"])], "g", sides[:1], sides[1:], [weights])
    onnx.save_model(
        onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 18)]),
        "split.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    assert Path("weights.bin").is_file()
    with pytest.raises(UserError, match=r"split\.onnx is not an ONNX file that can be run: .*External data path does not exist"):
        open_onnx(Path("split.onnx"))


def test_the_runtime_leaves_nothing_behind(tmp_path: Path) -> None:
    """Importing it wrote a device id below the user's home, for what it reports to its maker."""
    code = "import image_copies.models.inference.onnx_embedder, onnxruntime"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=Path(__file__).parents[3], check=True)
    assert not [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name]
