"""PCA whitening of embeddings, learnt after the last stage and undone inside the classifier (MultiGrain, section 3.4)."""

import torch
from torch import Tensor
from torch.nn import functional

from image_copies.augmentations.randomness import generator_for
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.models.device import report_lack_of_memory
from image_copies.models.inference.handmade import compute_raw
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.descriptor import Descriptor, whiten
from image_copies.models.training.model_settings import ModelSettings

VARIANCE_FLOOR = 1e-6  # minimum variance along an axis, as a fraction of the largest
ROUNDING_VARIANCE = 1e-12  # variance of unit vectors that rounding alone can cause
BATCH_SIZE = 64  # images
WHITENING_IMAGES = 20_000  # the paper takes 20,000 of YFCC100M (MultiGrain, section 4.1)


def fit_whitening(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Fit the whitening Φ(e) = S (e/‖e‖ − µ) on unlabelled embeddings [n, d]; return S [d, d] and µ [d].

    Variances below VARIANCE_FLOOR of the largest are raised to it. This keeps S invertible, so that folding stays exact, even
    with dead channels or little variation among the images.

    Raises:
        UserError: n ≤ d, or all embeddings are the same.
    """
    if len(embeddings) <= embeddings.shape[1]:
        raise UserError(
            f"{len(embeddings)} embeddings cannot whiten {embeddings.shape[1]} dimensions; use more images than dimensions."
        )
    unit = functional.normalize(embeddings.double())
    mean = unit.mean(0)
    values, axes = torch.linalg.eigh((unit - mean).T @ (unit - mean) / len(unit))
    if not values[-1] > ROUNDING_VARIANCE:
        raise UserError(
            f"the {len(unit)} embeddings to whiten with are all the same: the network has collapsed. Train it again."
        )
    matrix = (axes / values.clamp(min=VARIANCE_FLOOR * values[-1]).sqrt()).T
    return matrix.to(embeddings), mean.to(embeddings)


def compute_folded_logits(
    descriptor: Descriptor, embeddings: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Compute a classifier's logits from whitened embeddings: ‖e‖ (⟨S^{−T} w, Φ(e)⟩ + ⟨w, µ⟩) + b (MultiGrain, section 3.4).

    They [n, c] equal those of the classifier, w [c, d] and b [c], on the raw embeddings e [n, d] of a descriptor that whitens.
    """
    matrix, mean = descriptor.whitening_matrix, descriptor.whitening_mean
    folded = torch.linalg.solve(matrix.T.double(), weight.T.double()).T
    inside = whiten(embeddings, matrix, mean).double() @ folded.T + weight.double() @ mean.double()
    logits: Tensor = embeddings.norm(dim=1, keepdim=True) * inside + bias
    return logits.to(embeddings)


class FinalWhitening:
    """The whitening of a descriptor in training: its images are chosen before, and it is learnt at the end.

    Raises:
        UserError: The folder of images does not exist or contains none, or there are no more images than dimensions.
    """

    def __init__(
        self, settings: ModelSettings, dimensions: int, overlays: ImageSet, classes: ImageSet, seed: int
    ) -> None:
        self.workers = settings.workers
        self.images = _choose_images(settings, overlays, classes, seed)
        if len(self.images) <= dimensions:
            raise UserError(
                f"whiten: {len(self.images)} training images cannot whiten {dimensions} dimensions; more images than dimensions "
                "are needed. Lower descriptor.dimensions, leave whiten out, add training images, or name a folder of others "
                "(whitening_images)."
            )

    @torch.no_grad()
    def learn(self, descriptor: Descriptor, embedding: EmbeddingSettings, trained_at: int) -> None:
        """Fit the descriptor's whitening on clean images at the test size s* and exponent p* (MultiGrain, section 3.4), in place.

        The first WHITENING_IMAGES that can be read are used. `embedding` says how the descriptor will embed, by default at the
        size `trained_at`, which defines s* and p*.

        Raises:
            UserError: Too few images can be read, or all vectors are the same.
        """
        descriptor.eval()
        some = ImageSet(self.images.ids[:WHITENING_IMAGES], self.images.paths[:WHITENING_IMAGES])
        size = embedding.image_size or trained_at
        remedy = (
            "Lower embedding.image_size, or stop other programs that use memory; "
            "the same command goes on from the last saved state."
        )
        with (
            descriptor.use_exponent(embedding.pooling_exponent),
            report_lack_of_memory(
                f"while the whitening was fitted on batches of {BATCH_SIZE} images of {size} px", remedy
            ),
        ):
            matrix, mean = fit_whitening(compute_raw(descriptor, some, size, BATCH_SIZE, self.workers))
        descriptor.whitening_mean.copy_(mean)
        descriptor.whitening_matrix.copy_(matrix)


def _choose_images(settings: ModelSettings, overlays: ImageSet, classes: ImageSet, seed: int) -> ImageSet:
    """Choose the images that the whitening is fitted on, without duplicates.

    If the settings name a folder, its images are taken, in a seeded order; otherwise the overlays, then the classes.
    """
    if settings.whitening_images is not None:
        found = find_images(settings.whitening_images, naming="path")
        order = generator_for(seed, 0, "whitening").permutation(len(found))
        return found.select([found.ids[row] for row in order])
    pasted = set(overlays.ids)
    others = [row for row, image_id in enumerate(classes.ids) if image_id not in pasted]
    ids = [*overlays.ids, *(classes.ids[row] for row in others)]
    return ImageSet(ids, [*overlays.paths, *(classes.paths[row] for row in others)])
