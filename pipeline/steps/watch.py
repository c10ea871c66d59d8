"""Figures of a training on images that nothing is chosen by: queries with a ground truth, or class folders."""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.data.labels import read_class_folders
from image_copies.data.layout import GROUND_TRUTH, QUERY, REFERENCE
from image_copies.models.inference.protocols import View, embed_view
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.training.begin import Watch
from image_copies.pipeline.steps.validate import embed_in_memory
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.scoring.retrieval import recall_at

MOST_WATCHED = 10_000  # queries, and references: a million would take longer than most epochs


def watch_folder(folder: Path, settings: EmbeddingSettings) -> Watch:
    """Return what measures a descriptor on a folder; the keys of its figures are columns of the curve.

    Raises:
        UserError: The folder has neither queries, references and their ground truth nor class folders.
    """
    return _watch_queries(folder, settings) if (folder / QUERY).is_dir() else _watch_classes(folder)


def _watch_queries(folder: Path, settings: EmbeddingSettings) -> Watch:
    truth = read_ground_truth(folder / GROUND_TRUTH)
    queries = choose_watched(find_images(folder / QUERY).select(truth.query_ids), {query for query, _ in truth.pairs})
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
            raise UserError(f"{folder} has {len(labelled.names)} classes, the classifier {classifier.out_features}.")
        with torch.inference_mode():
            weight, bias = classifier.weight.cpu(), classifier.bias.cpu()
            logits = functional.linear(torch.from_numpy(embed_view(view, labelled.images, raw=True)), weight, bias)
        loss, top1 = functional.cross_entropy(logits, labels), (logits.argmax(1) == labels).float().mean()
        return figures | {"watched_top1": float(top1), "watched_loss": float(loss)}

    return measure
