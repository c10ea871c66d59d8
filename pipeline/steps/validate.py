"""Validation during training, by images that nothing is fitted on: no query or reference is looked at."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.data.labels import read_class_folders
from image_copies.data.layout import GROUND_TRUTH, QUERY, REFERENCE
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.protocols import View, embed_view
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.training.trainer import Watch
from image_copies.pipeline.run.run import Run, TrainingRoles
from image_copies.pipeline.run.step import search_on_gpu
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.scoring.retrieval import recall_at
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


MOST_WATCHED = 10_000  # queries, and references: a million would take longer than most epochs


def watch_folder(folder: Path, settings: EmbeddingSettings) -> Watch:
    """Return what measures a descriptor on a folder; the keys of its figures are columns of the curve.

    Raises:
        UserError: The folder has neither queries, references and their ground truth nor class folders.
    """
    return _watch_queries(folder, settings) if (folder / QUERY).is_dir() else _watch_classes(folder)


def _watch_queries(folder: Path, settings: EmbeddingSettings) -> Watch:
    truth = read_ground_truth(folder / GROUND_TRUTH)
    queries = choose_watched(
        find_images(folder / QUERY).select(truth.query_ids), {query for query, _ in truth.pairs}
    )
    references = choose_watched(find_images(folder / REFERENCE), {reference for _, reference in truth.pairs})
    truth = GroundTruth(queries.ids, truth.pairs)

    def measure(descriptor: Descriptor, image_size: int, classifier: nn.Linear | None) -> dict[str, float]:
        checkpoint = Checkpoint(descriptor, image_size, {})
        found, among = (embed_in_memory(settings, checkpoint, images) for images in (queries, references))
        return {"watched_uap": evaluate(found, among, truth)[0].micro_average_precision}

    return measure


def choose_watched(images: ImageSet, copies: set[str]) -> ImageSet:
    """Return at most MOST_WATCHED images: those of the true pairs first, and others from first to last."""
    order = sorted(images.ids, key=lambda image_id: image_id not in copies)
    paired = sum(image_id in copies for image_id in order)
    step = max(1, -(-(len(order) - paired) // max(1, MOST_WATCHED - paired)))
    return images.select([*order[:paired], *order[paired::step]])


def _watch_classes(folder: Path) -> Watch:
    labelled = read_class_folders(folder)
    labels = torch.from_numpy(labelled.labels)

    def measure(descriptor: Descriptor, image_size: int, classifier: nn.Linear | None) -> dict[str, float]:
        view = View(descriptor.eval(), image_size, "center_crop")
        figures = {"watched_recall": recall_at(embed_view(view, labelled.images), labelled.labels, (1,))[1]}
        if classifier is None:
            return figures
        if classifier.out_features != len(labelled.names):
            raise UserError(
                f"{folder} has {len(labelled.names)} classes, the classifier {classifier.out_features}."
            )
        with torch.inference_mode():
            weight, bias = classifier.weight.cpu(), classifier.bias.cpu()
            logits = functional.linear(
                torch.from_numpy(embed_view(view, labelled.images, raw=True)), weight, bias
            )
        loss, top1 = functional.cross_entropy(logits, labels), (logits.argmax(1) == labels).float().mean()
        return figures | {"watched_top1": float(top1), "watched_loss": float(loss)}

    return measure
