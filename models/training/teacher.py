"""A teacher's vectors of the clean training images, computed once and stored in the training's folder.

A term in addition to any objective compares with them (models/objectives/distillation.py).
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file_apart
from image_copies.data.images import ImageSet
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.stored_graph import digest_checkpoint
from image_copies.models.training.begin import Training
from image_copies.models.training.state import Progress
from image_copies.models.training.teacher_file import require_teacher

VECTORS = "teacher.safetensors"


def load_taught(training: Training, progress: Progress) -> Tensor | None:
    """The teacher's vectors [n, d] of all training images, if there is one: the first process embeds, once for all.

    Raises:
        UserError: As for `load_teacher_vectors`.
    """
    settings = training.settings
    teacher = settings.teacher_file
    if teacher is None:
        return None
    dimensions = training.descriptor.dimensions if settings.shares_teachers_space else None
    with training.fabric.rank_zero_first():
        return load_teacher_vectors(teacher, training.classes, dimensions, training.folder, training.workers, progress.step > 0)


def load_teacher_vectors(
    teacher: Path, images: ImageSet, dimensions: int | None, folder: Path, workers: int | None, begun: bool = False
) -> Tensor:
    """Load or compute the teacher's vectors of images, float32 [n, d] of unit length, zero where one cannot be read.

    The mean is subtracted because a common direction would drive the student away from it. Vectors of the same
    teacher and images that were computed before are read from `folder`, the student's. If its training has `begun` to learn from
    them, no other teacher may take over. Without `dimensions` they may have any.

    Raises:
        UserError: The file is missing, not a checkpoint or not the one that the training began with, or its vectors have another
            dimension.
    """
    require_teacher(teacher)
    origin = {"teacher": digest_checkpoint(teacher), "images": images.digest(times=False)}
    kept = folder / VECTORS
    stored, vectors = _read(kept)
    if begun and stored.get("images") == origin["images"] and stored.get("teacher") != origin["teacher"]:
        raise UserError(
            f"{teacher} is not the teacher that the training in {folder} began with. Restore that file to continue, or delete "
            "state.json there to train from the beginning."
        )
    if vectors is not None and stored == origin:
        _check_dimensions(teacher, vectors.shape[1], dimensions)
    else:
        vectors = torch.from_numpy(_embed(teacher, images, dimensions, workers))
        with whole_file_apart(kept) as temporary:
            save_file({"vectors": vectors}, temporary, metadata=origin)
    readable = vectors.any(dim=1, keepdim=True)
    mean = vectors.float().sum(dim=0) / readable.sum().clamp(min=1)
    return functional.normalize((vectors.float() - mean) * readable)


def _check_dimensions(teacher: Path, found: int, wanted: int | None) -> None:
    if wanted not in (None, found):
        raise UserError(
            f"the teacher {teacher} has {found} dimensions, the model {wanted}: set descriptor.dimensions to {found}, or let the "
            "model learn relations alone (distillation: {kind: relations}), for which dimensions may differ."
        )


def _embed(teacher: Path, images: ImageSet, dimensions: int | None, workers: int | None) -> NDArray[np.float16]:
    checkpoint = load_descriptor(teacher)
    _check_dimensions(teacher, checkpoint.descriptor.dimensions, dimensions)
    vectors = np.zeros((len(images), checkpoint.descriptor.dimensions), np.float16)
    with tqdm(total=len(images), desc="teacher", unit="image", leave=False) as bar:
        for block in embed_images(checkpoint, images, EmbeddingSettings(workers=workers)):
            vectors[block.first : block.first + len(block.vectors)] = block.vectors
            bar.update(len(block.vectors))
    return vectors


def _read(path: Path) -> tuple[dict[str, str], Tensor | None]:
    """Read the stored vectors' origin and the vectors; {} and None if there are none."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, file.get_tensor("vectors")
    except (OSError, SafetensorError):
        return {}, None
