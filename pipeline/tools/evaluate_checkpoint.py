"""Evaluation of a checkpoint on a public data set: read the set, embed it by its protocol, compute its metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from image_copies.data.labels import LabelledImages, read_class_folders
from image_copies.data.preprocessing import TestProtocol
from image_copies.data.readers.cars import read_cars
from image_copies.data.readers.copydays import read_copydays
from image_copies.data.readers.cub import read_cub
from image_copies.data.readers.expected import RetrievalSet
from image_copies.data.readers.holidays import read_holidays
from image_copies.data.readers.online_products import read_online_products
from image_copies.data.readers.ukb import read_ukb
from image_copies.models.device import best_device
from image_copies.models.inference.protocols import View, embed_view
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network
from image_copies.models.network.whitening import compute_folded_logits
from image_copies.models.training.classifier import has_classifier, load_classifier
from image_copies.submissions.scoring.retrieval import (
    mean_average_precision,
    mean_singular_value,
    normalized_mutual_information,
    recall_at,
    ukb_score,
)


@dataclass(frozen=True)
class Source:
    """The files of an evaluation."""

    checkpoint: Path  # may have a classifier next to it
    root: Path  # the unpacked data set
    distractors: Path | None  # folder of further images to search in


def evaluate_checkpoint(
    checkpoint_file: Path,
    data_set: str,
    root: Path,
    *,
    distractors: Path | None = None,
    image_size: int | None = None,
    protocol: TestProtocol | None = None,
    pooling_exponent: float | None = None,
) -> None:
    """Print a table of the metrics of one of EVALUATIONS, whose archive is unpacked in `root`.

    "copydays" may have distractors, a folder of further images to search in. By default images have the training size, GeM's p is
    the trained one, and the protocol that of MultiGrain, section 4.1: the centre crop up to the training size, the whole image
    above.

    Raises:
        UserError: when the checkpoint cannot be read, or the folder is not the expected data set.
    """
    checkpoint = load_descriptor(checkpoint_file)
    descriptor = require_trained_network(checkpoint, checkpoint_file).eval().to(best_device(), memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format
    descriptor.pool_with(pooling_exponent)
    size = image_size or checkpoint.image_size
    view = View(descriptor, size, protocol or ("center_crop" if size <= checkpoint.image_size else "long_side"))
    figures = EVALUATIONS[data_set](view, Source(checkpoint_file, root, distractors))
    exponent = float(descriptor.pooling.exponent.detach())
    print(f"{data_set}: {checkpoint_file}, {view.size} px, {view.protocol}, p {exponent:.2f}")
    table = Table()
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, f"{value:.4f}")
    Console(width=110).print(table)


def _evaluate_classes(view: View, labelled: LabelledImages, ks: Sequence[int] = (1, 2, 4, 8)) -> dict[str, float]:
    """Compute Recall@K at the papers' K (IDEAL, table 3), NMI and the mean singular value s with its bounds (SVMax)."""
    vectors = embed_view(view, labelled.images)
    figures = {f"Recall@{k}": value for k, value in recall_at(vectors, labelled.labels, ks).items()}
    s, lower, upper = mean_singular_value(vectors)
    figures["NMI"] = normalized_mutual_information(vectors, labelled.labels)
    return figures | {"s": s, "s: lower bound": lower, "s: upper bound": upper}


def _evaluate_ranking(view: View, found: RetrievalSet) -> dict[str, float]:
    vectors = embed_view(view, found.images)
    return {"mAP": mean_average_precision(vectors[found.queries], vectors, found.relevant, found.ignored)}


def _evaluate_groups(view: View, labelled: LabelledImages) -> dict[str, float]:
    return {"UKB score (of 4)": ukb_score(embed_view(view, labelled.images), labelled.labels)}


def _evaluate_class_folders(view: View, source: Source) -> dict[str, float]:
    """Also compute top-1 and top-5 accuracy if there is a classifier; its classes must be the folders, in the order of names."""
    labelled, checkpoint = read_class_folders(source.root), source.checkpoint
    figures = _evaluate_classes(view, labelled)
    if has_classifier(checkpoint) and not view.descriptor.settings.domains:
        weight, bias = load_classifier(checkpoint)
        if len(weight) != len(labelled.names):
            print(f"no top-1: the classifier has {len(weight)} classes, but {source.root} has {len(labelled.names)}")
        else:
            raw, whitening = torch.from_numpy(embed_view(view, labelled.images, raw=True)), view.descriptor.cpu().whitening()
            logits = raw @ weight.T + bias if whitening is None else compute_folded_logits(raw, whitening, weight, bias)
            best = logits.topk(min(5, len(weight)), dim=1).indices.numpy() == labelled.labels[:, None]
            figures |= {"top-1": float(best[:, 0].mean()), "top-5": float(best.any(axis=1).mean())}
    return figures


EVALUATIONS: dict[str, Callable[[View, Source], dict[str, float]]] = {
    "holidays": lambda view, source: _evaluate_ranking(view, read_holidays(source.root)),
    "copydays": lambda view, source: _evaluate_ranking(view, read_copydays(source.root, distractors=source.distractors)),
    "ukb": lambda view, source: _evaluate_groups(view, read_ukb(source.root)),
    "cub": lambda view, source: _evaluate_classes(view, read_cub(source.root).test),
    "cars": lambda view, source: _evaluate_classes(view, read_cars(source.root).test),
    "online_products": lambda view, source: _evaluate_classes(view, read_online_products(source.root).test, (1, 10, 100, 1000)),
    "class_folders": _evaluate_class_folders,
}
