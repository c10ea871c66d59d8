"""Distillation: a teacher's vectors of the clean training images are the fixed class prototypes of a smaller network.

The student's ArcFace compares its vectors of edited images with the teacher's of the clean ones, which are not trained (as in
RDCD, S. Kim et al., 2024, but with the whole training set as negatives). The vectors are computed once and stored in the
training's folder.
"""

import hashlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from data.errors import UserError
from data.files import whole_file_apart
from data.images import ImageSet
from models.inference.embed import embed_images
from models.network.checkpoint import load_descriptor
from models.settings import EmbeddingSettings

VECTORS = "teacher.safetensors"


def load_teacher_vectors(teacher: Path, images: ImageSet, dimensions: int, folder: Path, workers: int | None) -> Tensor:
    """Load or compute the teacher's vectors of images, centred and normalised.

    The mean is subtracted because prototypes with a common direction would drive the student away from it. Vectors of the same
    teacher and images that were computed before are read from `folder`.

    Args:
        teacher: Checkpoint of any descriptor.
        images: The n clean training images, in order.
        dimensions: Dimension d of the student's vectors.
        folder: The student's training folder, where the vectors are stored.
        workers: Data-loading workers; None for this process's share of the cores.

    Returns:
        float32 [n, d], unit length; zero where an image cannot be read.

    Raises:
        UserError: The file is missing or not a checkpoint, or its vectors have another dimension than the student's.
    """
    if not teacher.is_file():
        raise UserError(
            f"{teacher}: no such file. `teacher` of the recipe names a descriptor: a checkpoint, or what export.py writes."
        )
    with teacher.open("rb") as file:
        origin = {"teacher": hashlib.file_digest(file, "sha256").hexdigest(), "images": images.digest(times=False)}
    kept = folder / VECTORS
    vectors = _read(kept, origin)
    if vectors is None:
        vectors = torch.from_numpy(_embed(teacher, images, dimensions, workers))
        with whole_file_apart(kept) as temporary:
            save_file({"vectors": vectors}, temporary, metadata=origin)
    readable = vectors.any(dim=1, keepdim=True)
    mean = vectors.float().sum(dim=0) / readable.sum().clamp(min=1)
    return functional.normalize((vectors.float() - mean) * readable)


def compute_prototypes(vectors: Tensor, rows: list[int], labels: list[int]) -> tuple[Tensor, Tensor]:
    """Compute class prototypes as mean vectors.

    Args:
        vectors: The vectors of all images, [n, d].
        rows: Rows of the images to use.
        labels: The class of each of `rows`.

    Returns:
        The distinct classes int64 [c], ascending, and the unit mean [c, d] of their images' vectors; zero if none can be read.
    """
    found, place = torch.unique(torch.tensor(labels), return_inverse=True)
    total = torch.zeros(len(found), vectors.shape[1]).index_add_(0, place, vectors[rows])
    return found, functional.normalize(total)


def _embed(teacher: Path, images: ImageSet, dimensions: int, workers: int | None) -> NDArray[np.float16]:
    checkpoint = load_descriptor(teacher)
    if checkpoint.descriptor.dimensions != dimensions:
        raise UserError(
            f"the teacher {teacher} has {checkpoint.descriptor.dimensions} dimensions, the model {dimensions}: set "
            f"descriptor.dimensions to {checkpoint.descriptor.dimensions}."
        )
    vectors = np.zeros((len(images), dimensions), np.float16)
    with tqdm(total=len(images), desc="teacher", unit="image", leave=False) as bar:
        for block in embed_images(checkpoint, images, EmbeddingSettings(workers=workers)):
            vectors[block.first : block.first + len(block.vectors)] = block.vectors
            bar.update(len(block.vectors))
    return vectors


def _read(path: Path, origin: dict[str, str]) -> Tensor | None:
    """Read the stored vectors; None if there are none or they have another origin."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.get_tensor("vectors") if file.metadata() == origin else None
    except (OSError, SafetensorError):
        return None
