"""Validation during training, by images that nothing is fitted on: no query or reference is looked at."""

import numpy as np

from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.pipeline.run.run import Run, TrainingRoles
from image_copies.pipeline.run.step import search_on_gpu
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors


@search_on_gpu()
def score_on_synthetic_queries(
    run: Run, roles: TrainingRoles, descriptor: Descriptor, image_size: int, settings: EmbeddingSettings
) -> float:
    """Compute the µAP 0…1 of a descriptor on the synthetic queries, without ensemble and normalisation.

    The queries are searched in the validation references, as squares of `image_size` pixels. The descriptor is left in training
    mode.

    Raises:
        UserError: when the synthetic queries are missing or their ground truth cannot be read.
    """
    checkpoint = Checkpoint(descriptor, image_size, {})
    found = embed_in_memory(settings, checkpoint, find_images(run.paths.query_images))
    references = embed_in_memory(settings, checkpoint, roles.references)
    descriptor.train()
    scores, _ = evaluate(found, references, read_ground_truth(run.paths.query_ground_truth))
    return scores.micro_average_precision


def embed_in_memory(settings: EmbeddingSettings, checkpoint: Checkpoint, images: ImageSet) -> Vectors:
    """Embed images without a file."""
    blocks = list(embed_images(checkpoint, images, settings))
    return Vectors(
        images.ids,
        np.concatenate([block.vectors for block in blocks]),
        np.concatenate([block.unreadable for block in blocks]),
    )
