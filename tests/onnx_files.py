"""A network of anybody's in an ONNX file, which no exporter is needed for."""

from collections.abc import Sequence
from pathlib import Path

import onnx


def write_means(
    path: Path, kind: int = onnx.TensorProto.FLOAT, shape: Sequence[int | str] = ("n", 3, 32, 32), axes: Sequence[int] = (2, 3)
) -> Path:
    """Write a network that gives the means over these axes of its input: of pictures, the mean colours [n, 3]."""
    left = [length for axis, length in enumerate(shape) if axis not in axes]
    pixels = onnx.helper.make_tensor_value_info("pixels", kind, shape)
    means = onnx.helper.make_tensor_value_info("means", onnx.TensorProto.FLOAT, left)
    nodes = [
        onnx.helper.make_node("Cast", ["pixels"], ["floats"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("ReduceMean", ["floats", "axes"], ["means"], keepdims=0),
    ]
    constants = [onnx.helper.make_tensor("axes", onnx.TensorProto.INT64, [len(axes)], axes)]
    graph = onnx.helper.make_graph(nodes, "means", [pixels], [means], constants)
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)]), path)
    return path
