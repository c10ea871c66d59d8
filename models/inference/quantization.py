"""Convolutions in 8-bit whole numbers: a network of views takes half of the time, and gives nearly the same vectors.

Networks with depthwise convolutions stay as they are: whole numbers save them a quarter of the time, and their vectors come to
differ (cosine .94 for EfficientNet-Lite0).
"""

import logging
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from onnxruntime import quantization
from onnxscript import ir

from .embedders import Squares
from .onnx_embedder import input_name

BATCH = 16  # pictures whose values are looked at together
COLOURS = 3  # channels of a picture: what convolves them loses most, and gains least


def quantize(model: ir.Model, squares: Squares, left: tuple[str, ...]) -> ir.Model:
    """Return a graph with its convolutions in whole numbers, for values of the range that pictures at each size have.

    Those whose weights' names begin with one of `left` stay as they are. Weights have 7 bits: with 8 of them, processors without
    VNNI overflow where they add two products.
    """
    convolutions = [
        str(node.name)
        for node in model.graph
        if node.op_type == "Conv" and _is_deep(node) and not _weights_of(node).startswith(left)
    ]
    if not convolutions:  # for the runtime, no names are those of all nodes
        return model
    count = len(next(iter(squares.values())))
    batches = (
        {input_name(size): pixels[first : first + BATCH] for size, pixels in squares.items()}
        for first in range(0, count, BATCH)
    )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "whole.onnx"
        ir.save(model, source)
        logging.disable(logging.WARNING)  # it advises to fold batch normalisations, which is done
        try:
            quantization.quantize_static(
                source,
                target,
                SimpleNamespace(get_next=partial(next, batches, None)),
                op_types_to_quantize=["Conv", "Relu"],
                nodes_to_quantize=convolutions,
                per_channel=True,
                reduce_range=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
            )
        finally:
            logging.disable(logging.NOTSET)
        return ir.from_proto(ir.to_proto(ir.load(target)))  # in memory: the folder goes


def _weights_of(node: ir.Node) -> str:
    weights = node.inputs[1]
    return "" if weights is None else str(weights.name)


def _is_deep(node: ir.Node) -> bool:
    """Whether a convolution has fixed weights [out, in, h, w] for more channels than a picture has."""
    weights = node.inputs[1]
    fixed = None if weights is None else weights.const_value
    return fixed is not None and fixed.numpy().shape[1] > COLOURS
