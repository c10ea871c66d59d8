"""Export of one or several descriptors as one ONNX file: uint8 squares in, unit vectors out.

The exporter's constants are folded, but its rewriting rules are not applied: one of them takes any constant below 1e-8 for zero
and dropped the 1e-12 under a square root, by which pictures with flat areas differed by 3e-4.
"""

import copy
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnxscript import ir, opset18, optimizer
from torch import Tensor, nn

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data import files, procedural
from image_copies.data.arrays import Float32s
from image_copies.data.errors import UserError
from image_copies.data.squares import decode_square, resize_square

from ..network import joined
from ..network.checkpoint import Checkpoint, load_descriptor
from ..network.descriptor import Descriptor
from . import embed, embedders, folding, graph, quantization
from .onnx_embedder import DESCRIPTION, MADE_OF, VECTORS, input_name, open_session
from .settings import EmbeddingSettings

MAX_DIFFERENCE = 1e-4  # of a vector's coordinate between ONNX Runtime and torch
DRAWN = 24  # pictures drawn for the comparison
MIN_LIKENESS = 0.99  # mean cosine of vectors in whole numbers and those of torch
OPSET_VERSION = 18
NAME_PREFIX = "descriptors.0."  # of a checkpoint's weights in its graph
STORED = {"F32": ir.DataType.FLOAT, "F16": ir.DataType.FLOAT16}  # safetensors' names
PREPROCESSING = (
    "Decode to 8-bit RGB with the EXIF orientation applied, 16 bits scaled to 8 and transparency on white. Resize to size x size "
    "without keeping the shape: by pixel areas (OpenCV INTER_AREA) where the image's short side is longer than size, else "
    "bilinearly (INTER_LINEAR). Each input pixels_SIZE takes the same images as uint8 [batch, 3, SIZE, SIZE], channels in the "
    "order R, G, B, values 0...255: mean and standard deviation are inside the network."
)
Model = tuple[Checkpoint, EmbeddingSettings]


@dataclass(frozen=True)
class LinearMap:
    """A fitted projection: (vectors [n, D] − mean) @ axes, then L2 normalisation."""

    mean: Float32s  # [D]
    axes: Float32s  # [D, d]


class Exported(nn.Module):
    """Maps uint8 squares, one tensor [n, 3, s, s] per size, to unit vectors [n, d] as a run does, always in float32.

    The models' vectors are concatenated and, if there is a projection, projected. The models are changed in place.
    """

    mean: Tensor
    axes: Tensor

    def __init__(self, models: Sequence[Model], projection: LinearMap | None) -> None:
        super().__init__()
        self.descriptors = nn.ModuleList([checkpoint.descriptor.eval() for checkpoint, _ in models])
        self.views = [
            (settings.image_size or checkpoint.image_size, settings.flip) for checkpoint, settings in models
        ]
        self.sizes = sorted({size for size, _ in self.views})
        self.projects = projection is not None
        self.dimensions = sum(descriptor.dimensions for descriptor in self.descriptors)  # type: ignore[misc]  # as below
        for checkpoint, settings in models:
            checkpoint.descriptor.pool_with(settings.pooling_exponent)
            checkpoint.descriptor.whitens = settings.whiten
        if projection is not None:
            self.register_buffer("mean", torch.from_numpy(projection.mean))
            self.register_buffer("axes", torch.from_numpy(projection.axes))

    def forward(self, *squares: Tensor) -> Tensor:
        """Return unit vectors [n, d] of uint8 squares [n, 3, s, s], one tensor for each of `sizes`."""
        parts = [
            self._describe(descriptor, squares[self.sizes.index(size)], flip)  # type: ignore[arg-type]  # a ModuleList's items are typed as Module
            for descriptor, (size, flip) in zip(self.descriptors, self.views, strict=True)
        ]
        vectors = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return nn.functional.normalize((vectors - self.mean) @ self.axes) if self.projects else vectors

    def _describe(self, descriptor: Descriptor, pixels: Tensor, flip: bool) -> Tensor:
        return embed.embed_views(
            descriptor, normalize_pixels(pixels, descriptor.mean, descriptor.std), flip
        )


def export_onnx(
    models: Sequence[Model],
    projection: LinearMap | None,
    notes: dict[str, Any],
    path: Path,
    photographs: Sequence[Path] = (),
) -> float:
    """Write descriptors as one ONNX file with a dynamic batch size, and verify it against torch before it gets its name.

    Its description holds the notes, JSON values. Returned is the largest difference of a coordinate between the file and torch,
    on drawn pictures and on the photographs.

    Raises:
        UserError: The network cannot be exported, or the difference exceeds MAX_DIFFERENCE.
    """
    module = Exported(models, projection).eval().cpu()
    dimensions = (
        projection.axes.shape[1]
        if projection is not None
        else sum(checkpoint.descriptor.dimensions for checkpoint, _ in models)
    )
    model = _make_graph(module)
    _describe(model, module, dimensions, notes)
    with files.whole_file(path) as temporary:
        ir.save(model, temporary)
        return _verify(module, open_session(path, temporary.read_bytes()), MAX_DIFFERENCE, photographs)


def add_graph(checkpoint: Path, photographs: Sequence[Path] = ()) -> float:
    """Write a checkpoint's graph beside it, and one for views (graph.py); each is verified before.

    Returns:
        The largest difference of a coordinate between the graphs and torch, on drawn pictures and on the photographs.

    Raises:
        UserError: The checkpoint cannot be used, or the difference exceeds SAME_VECTORS.
    """
    checkpoint = checkpoint.resolve()
    loaded = load_descriptor(checkpoint)
    views = checkpoint.with_suffix(graph.VIEWS)
    difference = _write_graph(checkpoint.with_suffix(graph.GRAPH), checkpoint, loaded, photographs)
    views.unlink(missing_ok=True)
    if isinstance(loaded.descriptor, joined.JoinedDescriptor):
        reduced = joined.reduce_for_views(loaded.image_size)
        own = replace(loaded, descriptor=loaded.descriptor.for_views(), image_size=reduced)
        _write_views(views, checkpoint, own, _fold_members(loaded.descriptor.for_views()), photographs)
    return difference


def _fold_members(descriptor: joined.JoinedDescriptor) -> joined.JoinedDescriptor:
    """Return a copy with folded networks; the weights of those with depthwise convolutions stay the checkpoint's."""
    folded = copy.deepcopy(descriptor)
    for number, about in enumerate(descriptor.settings.members):
        network: Any = folded.members[number]
        if not joined.has_depthwise(network):
            network = folding.fold_batch_norms(network, about.image_size)
            folded.members[number] = folding.merge_pools(network, about.image_size)
    return folded


def _write_views(
    path: Path,
    checkpoint: Path,
    loaded: Checkpoint,
    folded: joined.JoinedDescriptor,
    photographs: Sequence[Path],
) -> None:
    """Write the graph that embeds views in whole numbers, or as it is where too much would be lost by that."""
    plain = Exported([(loaded, EmbeddingSettings())], None).eval().cpu()
    squares = _draw_squares(plain.sizes, photographs)
    module = Exported([(replace(loaded, descriptor=folded), EmbeddingSettings())], None).eval()
    negated = {size: np.concatenate([pixels, 255 - pixels]) for size, pixels in squares.items()}
    left = tuple(
        f"{NAME_PREFIX}members.{number}."
        for number, network in enumerate(folded.members)
        if joined.has_depthwise(network)
    )
    model = quantization.quantize(_make_graph(module), negated, left)
    content = _finish(model, module, checkpoint)
    vectors = open_session(path, content, checkpoint).embed(squares)
    with torch.inference_mode():
        expected = plain(*map(torch.from_numpy, squares.values())).numpy()
    if not (vectors * expected).sum(axis=1).mean() >= MIN_LIKENESS:
        content = _finish(_make_graph(plain), plain, checkpoint)
    with files.whole_file(path) as temporary:
        temporary.write_bytes(content)


def _write_graph(path: Path, checkpoint: Path, loaded: Checkpoint, photographs: Sequence[Path]) -> float:
    """Write the graph of a descriptor whose weights are in a checkpoint; return its difference from torch.

    Raises:
        UserError: The network cannot be exported, or the difference exceeds SAME_VECTORS.
    """
    module = Exported([(loaded, EmbeddingSettings())], None).eval().cpu()
    content = _finish(_make_graph(module), module, checkpoint)
    difference = _verify(
        module, open_session(path, content, checkpoint), embedders.SAME_VECTORS, photographs
    )
    with files.whole_file(path) as temporary:
        temporary.write_bytes(content)
    return difference


def _finish(model: ir.Model, module: Exported, checkpoint: Path) -> bytes:
    """Return the bytes of a graph that takes its weights from a checkpoint."""
    _leave_weights(model, checkpoint)
    _describe(model, module, module.dimensions, {MADE_OF: files.digest_file(checkpoint)})
    content: bytes = ir.to_proto(model).SerializeToString()
    return content


def _make_graph(module: Exported) -> ir.Model:
    """Return the module as an ONNX graph without notes of the exporter. Weights keep their names and values.

    Raises:
        UserError: The network cannot be exported.
    """
    example = tuple(folding.draw_pictures(size, 3) for size in module.sizes)
    batch = torch.export.Dim("batch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecation warnings of the exporter's own code
            program = torch.onnx.export(
                module,
                example,
                dynamo=True,
                input_names=[input_name(size) for size in module.sizes],
                output_names=[VECTORS],
                dynamic_shapes={"squares": tuple({0: batch} for _ in example)},
                opset_version=OPSET_VERSION,
                custom_translation_table={torch.ops.aten.pow.Tensor_Tensor: _raise},
                verbose=False,
                optimize=False,
            )
    except Exception as error:  # the exporter raises many kinds of errors for unsupported layers
        raise UserError(f"the network cannot be exported to ONNX: {str(error).splitlines()[0]}") from error
    if program is None:
        raise RuntimeError("torch.onnx.export gave no program")
    model = program.model
    optimizer.inline(model)
    for _ in range(2):  # what the first leaves unused may have held the second back
        optimizer.fold_constants(model, should_fold=_computes_no_weight)
        optimizer.remove_unused_nodes(model)
    for node in model.graph.all_nodes():
        node.metadata_props.clear()  # lines and folders of this machine's source
        for value in node.outputs:
            value.metadata_props.clear()
    return model


def _raise(values: Any, exponent: Any) -> Any:
    """Return positive values to a power, as GeM asks for it; ONNX Runtime's own `Pow` takes five times as long."""
    return opset18.Exp(opset18.Mul(opset18.Log(values), exponent))


def _computes_no_weight(node: ir.Node) -> bool | None:
    """Return False where a weight would be stored a second time, transposed; None lets the optimizer decide."""
    return False if node.op_type == "Transpose" else None


def _leave_weights(model: ir.Model, checkpoint: Path) -> None:
    """Let the graph take every weight that the checkpoint has, in float32 or in half precision, from there.

    A safetensors file is the length of its header, the header as JSON (type, shape and place of each tensor), and the bytes.
    """
    content = checkpoint.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    for name, value in list(model.graph.initializers.items()):
        stored = header.get(name.removeprefix(NAME_PREFIX))
        if stored is None or value.const_value is None or stored["dtype"] not in STORED:
            continue
        kind = STORED[stored["dtype"]]
        weights = value.const_value.numpy()
        first, end = stored["data_offsets"]
        if content[start + first : start + end] != weights.astype(kind.numpy()).tobytes():
            continue
        outside = ir.ExternalTensor(
            checkpoint.name, start + first, end - first, kind, shape=ir.Shape(weights.shape), name=name
        )
        if kind == ir.DataType.FLOAT:
            value.const_value = outside
        else:
            _convert(model, value, outside)


def _convert(model: ir.Model, value: ir.Value, stored: ir.ExternalTensor) -> None:
    """Let a graph convert a weight in half precision to float32, once, when it is opened."""
    half = ir.Value(
        name=f"{stored.name}.half", shape=stored.shape, type=ir.TensorType(stored.dtype), const_value=stored
    )
    cast = ir.node("Cast", [half], {"to": ir.DataType.FLOAT.value})
    del model.graph.initializers[stored.name]
    model.graph.register_initializer(half)
    model.graph.insert_before(model.graph[0], cast)
    value.replace_all_uses_with(cast.outputs[0])
    cast.outputs[0].name = stored.name


def _describe(model: ir.Model, module: Exported, dimensions: int, notes: dict[str, Any]) -> None:
    """Add the description to the metadata of a graph."""
    description = {
        "sizes": module.sizes,
        "dimensions": dimensions,
        "preprocessing": PREPROCESSING,
        "notes": notes,
    }
    model.metadata_props[DESCRIPTION] = json.dumps(description)


def _verify(
    module: Exported, network: embedders.Embedder, most: float, photographs: Sequence[Path]
) -> float:
    """Return by how much the vectors of an exported network differ from torch's.

    Raises:
        UserError: They differ by more than `most`.
    """
    difference = largest_difference(module, network, photographs)
    if not difference <= most:
        raise UserError(
            f"the exported network differs from torch by {difference:.1e}, more than {most:g}; nothing was written."
        )
    return difference


@torch.inference_mode()
def largest_difference(
    module: Exported, network: embedders.Embedder, photographs: Sequence[Path] = ()
) -> float:
    """Return the largest difference of a coordinate between what was exported and torch, over batches of different sizes."""
    squares = _draw_squares(module.sizes, photographs)
    differences, count = [], DRAWN + len(photographs)
    for first, end in pairwise([0, 1, 3, 8, *range(DRAWN, count, DRAWN), count]):
        batch = {size: pixels[first:end] for size, pixels in squares.items()}
        expected = module(*map(torch.from_numpy, batch.values())).numpy()
        differences.append(float(np.abs(network.embed(batch) - expected).max()))
    return max(differences)


def _draw_squares(sizes: Sequence[int], photographs: Sequence[Path]) -> embedders.Squares:
    """Return drawn pictures at each size, and photographs, black where they cannot be read.

    Half of every third drawn picture is plain, as in screenshots and scans: small constants decide what such an area gives.
    """
    drawn = [procedural.draw_picture(np.random.default_rng(seed)) for seed in range(DRAWN)]
    for picture in drawn[::3]:
        picture[:, : picture.shape[1] // 2] = 255
    return {
        size: np.stack(
            [resize_square(picture, size).transpose(2, 0, 1) for picture in drawn]
            + [decode_square(path, size)[0] for path in photographs]
        )
        for size in sizes
    }
