"""Validation during training: µAP of the synthetic queries among the validation references."""

import numpy as np

from data.ground_truth import read_ground_truth
from data.images import ImageSet, find_images
from models.inference.embed import embed_images
from models.network.checkpoint import Checkpoint
from models.network.descriptor import Descriptor
from models.settings import EmbeddingSettings
from pipeline.run.stage import Run
from pipeline.run.training_roles import Roles
from submissions.scoring.metrics import evaluate
from submissions.vectors.files import Vectors


def synthetic_score(run: Run, roles: Roles, descriptor: Descriptor, image_size: int, settings: EmbeddingSettings) -> float:
    """µAP of the descriptor as it stands, without ensemble and normalisation."""
    queries = run.folder / "queries"
    checkpoint = Checkpoint(descriptor, image_size, {})
    found = _embedded(settings, checkpoint, find_images(queries / "query_images"))
    references = _embedded(settings, checkpoint, roles.references)
    descriptor.train()
    scores, _ = evaluate(found, references, read_ground_truth(queries / "public_ground_truth.csv"))
    return scores.micro_average_precision


def _embedded(settings: EmbeddingSettings, checkpoint: Checkpoint, images: ImageSet) -> Vectors:
    blocks = list(embed_images(checkpoint, images, settings))
    return Vectors(
        images.ids, np.concatenate([block.vectors for block in blocks]), np.concatenate([block.unreadable for block in blocks])
    )
