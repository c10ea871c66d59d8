"""A teacher's vectors of the clean training images, as class rows: what a smaller network is to learn from edited ones.

The student's ArcFace compares its vectors of edited images with the teacher's of the clean ones, which stay as they are
(distillation as in RDCD: S. Kim et al., 2024, with the whole training set as negatives). The vectors are computed once and kept
beside the training.
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
from data.files import whole_file
from data.images import ImageSet
from models.inference.embed import embed_images
from models.network.checkpoint import load_descriptor
from models.settings import EmbeddingSettings

VECTORS = "teacher.safetensors"


def load_teacher_vectors(teacher: Path, images: ImageSet, dimensions: int, folder: Path, workers: int | None) -> Tensor:
    """The teacher's vectors of the images [n, d], float32: less their mean, of unit length; zero where an image cannot be read.

    Rows of a softmax that share a direction would drive the student away from it, so the mean is taken off.
    They are read from `folder` where they were computed before, by the same teacher and of the same images.

    Args:
        teacher: File of any descriptor.
        images: The clean training images, in order.
        dimensions: d of the student.
        folder: Of the student's training, where the vectors are kept.
        workers: Processes that decode images.

    Raises:
        UserError: The file is no descriptor, or its vectors have other dimensions than the student's.
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
        with whole_file(kept) as temporary:
            save_file({"vectors": vectors}, temporary, metadata=origin)
    readable = vectors.any(dim=1, keepdim=True)
    mean = vectors.float().sum(dim=0) / readable.sum().clamp(min=1)
    return functional.normalize((vectors.float() - mean) * readable)


def prototypes_of(vectors: Tensor, rows: list[int], labels: list[int]) -> tuple[Tensor, Tensor]:
    """The classes [c] that occur, in order, and the unit mean [c, d] of their images' vectors; zero where none can be read.

    Args:
        vectors: [n, d], of all images.
        rows: Of the images to take.
        labels: The class of each of `rows`.
    """
    found, place = torch.unique(torch.tensor(labels), return_inverse=True)
    total = torch.zeros(len(found), vectors.shape[1]).index_add_(0, place, vectors[rows])
    return found, functional.normalize(total)


def _embed(teacher: Path, images: ImageSet, dimensions: int, workers: int | None) -> NDArray[np.float16]:
    checkpoint = load_descriptor(teacher)
    if checkpoint.descriptor.dimensions != dimensions:
        raise UserError(
            f"the teacher {teacher} makes vectors of {checkpoint.descriptor.dimensions} dimensions, the model of {dimensions}: "
            "give descriptor.dimensions the teacher's number."
        )
    vectors = np.zeros((len(images), dimensions), np.float16)
    with tqdm(total=len(images), desc="teacher", unit="image", leave=False) as bar:
        for block in embed_images(checkpoint, images, EmbeddingSettings(workers=workers)):
            vectors[block.first : block.first + len(block.vectors)] = block.vectors
            bar.update(len(block.vectors))
    return vectors


def _read(path: Path, origin: dict[str, str]) -> Tensor | None:
    """The vectors that were kept; None where there are none, or others."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.get_tensor("vectors") if file.metadata() == origin else None
    except (OSError, SafetensorError):
        return None
