"""The rows of the class matrix at the beginning of a stage: centroids of the backbone's own vectors, or a teacher's vectors."""

from torch import Tensor

from image_copies.augmentations.dataset import EditedImages
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import CachedImages
from image_copies.data.process import choose_workers
from image_copies.models.distributed import share_buffers
from image_copies.models.objectives.base import Objective
from image_copies.models.training.drip import compute_centroids
from image_copies.models.training.learner import Learner
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import StageSettings
from image_copies.models.training.teacher import compute_prototypes


def build_head(settings: ModelSettings, dimensions: int, classes: int, seed: int) -> Objective:
    """Build the recipe's objective (`ObjectiveSettings.build`); its class matrix has the gradients that its optimiser takes."""
    objective = settings.objective.build(dimensions, classes, seed)
    objective.sparse_rows = settings.optimizer.class_kind == "sparse_adam"
    return objective


def rebuild_class_rows(
    settings: ModelSettings,
    stage: StageSettings,
    learner: Learner,
    squares: CachedImages,
    edited: EditedImages,
    rows: list[int],
    class_of: list[int],
) -> None:
    """Rebuild the rows that this process holds from the network's own centroids (ISC2021 paper, section 2.4).

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
        learner.descriptor,
        clean,
        edited,
        own,
        labels,
        128,
        choose_workers(settings.workers),
        settings.precision,
        stage.centroid_edits,
    )
    matrix.set_prototypes(found, centroids)


def freeze_class_rows(objective: Objective) -> None:
    """Leave the rows of the class matrix, if there is one, as they are set."""
    matrix = objective.class_matrix()
    if matrix is not None:
        matrix.parameter.requires_grad_(False)


def take_teachers_rows(objective: Objective, taught: Tensor, rows: list[int], class_of: list[int]) -> None:
    """Set the rows that this process holds to the teacher's vectors of the clean images, of as many dimensions.

    The vectors of all training images are [n, d]; `rows` are those that the stage learns from, whose classes are found by row.
    """
    matrix = objective.class_matrix()
    if matrix is None:
        return
    own = [row for row in rows if class_of[row] in matrix.classes]
    matrix.set_prototypes(*compute_prototypes(taught, own, [class_of[row] for row in own]))
