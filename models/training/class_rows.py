"""Drip training: the class matrix grows and is rebuilt from the backbone's own class centroids (ISC2021 paper, 2.5.1)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader
from tqdm import tqdm

from image_copies.augmentations.dataset import EditedImages, normalize_pixels
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import CachedImages
from image_copies.data.process import choose_workers
from image_copies.models.device import autocast
from image_copies.models.distributed import share_buffers
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.training.learner import Learner
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import StageSettings

FIRST_CENTROID_EPOCH = -1  # the rebuild uses the edits of epochs −1, −2, …, which training never uses


def rebuild_class_rows(
    settings: ModelSettings,
    stage: StageSettings,
    learner: Learner,
    squares: CachedImages,
    edited: EditedImages,
    rows: list[int],
    class_of: list[int],
) -> None:
    """Rebuild the rows that this process holds from the network's own centroids (ISC2021 paper, section 2.5.1).

    `edited` are the images of `squares` as the stage edits them, `rows` those that it learns from, whose classes are found by
    row. An objective without a class matrix is left alone.
    """
    matrix = learner.objective.class_matrix()
    if matrix is None:
        return
    share_buffers(learner.descriptor)  # on CPUs each process gathers its own statistics: rows must come from one network
    own = [row for row in rows if class_of[row] in matrix.classes]
    clean = EditedImages(squares, AugmentationSettings(family="none"), stage.image_size, edited.seed)
    labels = [class_of[row] for row in own]
    found, centroids = compute_centroids(
        descriptor=learner.descriptor,
        clean=clean,
        edited=edited,
        rows=own,
        classes=labels,
        batch_size=128,
        workers=choose_workers(settings.workers),
        precision=settings.precision,
        edited_per_class=stage.centroid_edits,
    )
    matrix.set_prototypes(found, centroids)


@torch.no_grad()
def compute_centroids(
    descriptor: Descriptor,
    clean: EditedImages,
    edited: EditedImages,
    rows: Sequence[int],
    classes: Sequence[int],
    batch_size: int,
    workers: int,
    precision: str,
    edited_per_class: int,
) -> tuple[Tensor, Tensor]:
    """Return the distinct classes of the images `rows`, int64 [c], ascending, and their centroids, float32 [c, d].

    A centroid is the normalised mean over the class's images, each once clean and `edited_per_class` times edited. The
    descriptor's mode is restored.
    """
    device = next(descriptor.parameters()).device
    was_training = descriptor.training
    descriptor.eval()
    found, place = torch.unique(torch.tensor(classes), return_inverse=True)
    place, on_gpu = place.to(device), device.type == "cuda"
    total = torch.zeros(len(found), descriptor.dimensions, device=device)
    passes = [(clean, FIRST_CENTROID_EPOCH)] + [(edited, FIRST_CENTROID_EPOCH - number) for number in range(edited_per_class)]
    with tqdm(total=len(passes) * len(rows), desc="centroids", unit="image", leave=False) as bar:
        for dataset, epoch in passes:
            keys = [(epoch, row, 0) for row in rows]
            first = 0
            for pixels, _ in DataLoader(dataset, batch_size, sampler=keys, num_workers=workers, pin_memory=on_gpu):
                images = normalize_pixels(pixels.to(device, non_blocking=True), descriptor.mean, descriptor.std)
                with autocast(device, precision):
                    vectors = descriptor(images)
                total.index_add_(0, place[first : first + len(vectors)], vectors.float())
                first += len(vectors)
                bar.update(len(vectors))
    descriptor.train(was_training)
    return found, functional.normalize(total)
