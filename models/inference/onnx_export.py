"""Export of one or several descriptors as one ONNX file: uint8 squares in, unit vectors out."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.errors import UserError
from image_copies.data.files import whole_file
from image_copies.models.inference.embed import average_vectors, image_sizes, make_views
from image_copies.models.inference.onnx_embedder import DESCRIPTION, VECTORS, OnnxDescription, input_name, open_onnx
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor

MAX_DIFFERENCE = 1e-4  # of a vector's coordinate between ONNX Runtime and torch
OPSET_VERSION = 18
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

    mean: NDArray[np.float32]  # [D]
    axes: NDArray[np.float32]  # [D, d]


class Exported(nn.Module):
    """Maps uint8 squares, one tensor [n, 3, s, s] per size, to unit vectors [n, d] as a run does, always in float32.

    The models' vectors are concatenated and, if there is a projection, projected. The models are changed in place.
    """

    mean: Tensor
    axes: Tensor

    def __init__(self, models: Sequence[Model], projection: LinearMap | None) -> None:
        super().__init__()
        self.descriptors = nn.ModuleList([checkpoint.descriptor.eval() for checkpoint, _ in models])
        self.views = [(image_sizes(settings, checkpoint.image_size), settings.flip) for checkpoint, settings in models]
        self.sizes = sorted({max(sizes) for sizes, _ in self.views})
        self.projects = projection is not None
        for checkpoint, settings in models:
            checkpoint.descriptor.pool_with(settings.pooling_exponent)
            checkpoint.descriptor.whitens = settings.whiten
        if projection is not None:
            self.register_buffer("mean", torch.from_numpy(projection.mean))
            self.register_buffer("axes", torch.from_numpy(projection.axes))

    def forward(self, *squares: Tensor) -> Tensor:
        """Return unit vectors [n, d] of uint8 squares [n, 3, s, s], one tensor for each of `sizes`."""
        parts = [
            self._describe(descriptor, squares[self.sizes.index(max(sizes))], sizes, flip)  # type: ignore[arg-type]  # a ModuleList's items are typed as Module
            for descriptor, (sizes, flip) in zip(self.descriptors, self.views, strict=True)
        ]
        vectors = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return nn.functional.normalize((vectors - self.mean) @ self.axes) if self.projects else vectors

    def _describe(self, descriptor: Descriptor, pixels: Tensor, sizes: list[int], flip: bool) -> Tensor:
        floats = normalize_pixels(pixels, descriptor.mean, descriptor.std)
        return average_vectors([descriptor(view) for view in make_views(floats, sizes, flip)])


def export_onnx(models: Sequence[Model], projection: LinearMap | None, notes: dict[str, Any], path: Path) -> float:
    """Write descriptors as one ONNX file with a dynamic batch size, and verify it against torch before it gets its name.

    Its description holds the notes, JSON values. Returned is the largest difference of a coordinate between the file and torch.

    Raises:
        UserError: The network cannot be exported, or the difference exceeds MAX_DIFFERENCE.
    """
    module = Exported(models, projection).eval().cpu()
    names = [input_name(size) for size in module.sizes]
    example = tuple(_draw_pictures(size, 3) for size in module.sizes)
    batch = torch.export.Dim("batch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecation warnings of the exporter's own code
            program = torch.onnx.export(
                module,
                example,
                dynamo=True,
                input_names=names,
                output_names=[VECTORS],
                dynamic_shapes={"squares": tuple({0: batch} for _ in example)},
                opset_version=OPSET_VERSION,
                verbose=False,
            )
    except Exception as error:  # the exporter raises many kinds of errors for unsupported layers
        raise UserError(f"the network cannot be exported to ONNX: {str(error).splitlines()[0]}") from error
    if program is None:
        raise RuntimeError("torch.onnx.export gave no program")
    dimensions = (
        projection.axes.shape[1] if projection is not None else sum(checkpoint.descriptor.dimensions for checkpoint, _ in models)
    )
    description = OnnxDescription(sizes=tuple(module.sizes), dimensions=dimensions, preprocessing=PREPROCESSING, notes=notes)
    program.model.metadata_props[DESCRIPTION] = json.dumps(description.model_dump(mode="json"))
    with whole_file(path) as temporary:
        program.save(str(temporary), external_data=False)
        difference = largest_difference(module, temporary)
        if not difference <= MAX_DIFFERENCE:
            raise UserError(
                f"the exported network differs from torch by {difference:.1e}, more than {MAX_DIFFERENCE:g}; nothing was written."
            )
    return difference


@torch.inference_mode()
def largest_difference(module: Exported, path: Path) -> float:
    """Return the largest difference of a coordinate between file and torch, over batches of 1, 2 and 5 pictures."""
    network = open_onnx(path)
    differences = []
    for count in (1, 2, 5):
        squares = {size: _draw_pictures(size, count) for size in module.sizes}
        expected = module(*squares.values()).numpy()
        differences.append(float(np.abs(network.embed(squares) - expected).max()))
    return max(differences)


def _draw_pictures(size: int, count: int) -> Tensor:
    """Draw smooth random pictures uint8 [count, 3, size, size]; noise would give nearly equal vectors."""
    generator = torch.Generator().manual_seed(size + count)
    coarse = torch.rand(count, 3, 5, 5, generator=generator)
    return (nn.functional.interpolate(coarse, (size, size), mode="bilinear") * 255).round().to(torch.uint8)
