"""Convolutions in 8-bit whole numbers: a network of views takes half of the time, and gives nearly the same vectors.

Networks with depthwise convolutions stay as they are: whole numbers save them a quarter of the time, and their vectors come to
differ (cosine .94 for EfficientNet-Lite0).
"""

import logging
import re
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


def quantize(model: ir.Model, squares: Squares) -> ir.Model:
    """Return a graph with its convolutions in whole numbers, for values of the range that pictures at each size have.

    Weights have 7 bits: with 8 of them, processors without VNNI overflow where they add two products.
    """
    convolutions = _choose_convolutions(model)
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


def _choose_convolutions(model: ir.Model) -> list[str]:
    """Return the names of the convolutions that are worth it."""
    nodes = [node for node in model.graph if node.op_type == "Conv"]
    depthwise = {_network_of(node) for node in nodes if _is_depthwise(node)}
    chosen = [node for node in nodes if _is_deep(node) and _network_of(node) not in depthwise]
    return [str(node.name) for node in chosen]


def _is_depthwise(node: ir.Node) -> bool:
    weights = node.inputs[1]
    fixed = None if weights is None else weights.const_value
    return fixed is not None and fixed.numpy().shape[1] == 1 and node.attributes.get_int("group", 1) > 1


def _network_of(node: ir.Node) -> str:
    """Return the part of a weight's name that the member of a joined descriptor has; "" of a single network."""
    weights = node.inputs[1]
    member = re.search(r"members\.\d+\.", "" if weights is None else str(weights.name))
    return member[0] if member else ""


def _is_deep(node: ir.Node) -> bool:
    """Whether a convolution has fixed weights [out, in, h, w] for more channels than a picture has."""
    weights = node.inputs[1]
    fixed = None if weights is None else weights.const_value
    return fixed is not None and fixed.numpy().shape[1] > COLOURS
