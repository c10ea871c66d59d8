"""evaluate.py's work: read the set, embed it by its protocol, score it."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from augmentations.dataset import normalized
from data.images import ImageSet
from data.labels import LabelledImages, read_class_folders
from data.protocol import Protocol, ProtocolImages, SameShapeBatches, shapes_of
from data.readers.cars import read_cars
from data.readers.copydays import read_copydays
from data.readers.cub import read_cub
from data.readers.expected import RetrievalSet
from data.readers.holidays import read_holidays
from data.readers.online_products import read_online_products
from data.readers.ukb import read_ukb
from models.network.checkpoint import load_descriptor
from models.network.descriptor import Descriptor
from models.network.device import best_device
from models.network.whitening import folded_logits
from models.training.finishing import has_classifier, load_classifier, whitening_of
from submissions.scoring.retrieval import (
    mean_average_precision,
    mean_singular_value,
    normalized_mutual_information,
    recall_at,
    ukb_score,
)

BATCH = 64
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class View:
    """How images are shown to the descriptor."""

    descriptor: Descriptor
    size: int
    protocol: Protocol


def evaluate_checkpoint(options: argparse.Namespace) -> None:
    """Print a table of the set's figures."""
    checkpoint = load_descriptor(options.checkpoint)
    descriptor = checkpoint.descriptor.eval().to(best_device(), memory_format=torch.channels_last)  # type: ignore[call-overload]
    if options.pooling_exponent is not None:
        descriptor.pooling.exponent.data.fill_(options.pooling_exponent)
    view = View(descriptor, options.image_size or checkpoint.image_size, options.protocol)
    figures = READERS[options.set](options, view)
    exponent = float(descriptor.pooling.exponent.detach())
    print(f"{options.set}: {options.checkpoint}, {view.size} px, {view.protocol}, p {exponent:.2f}")
    table = Table()
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, f"{value:.4f}")
    Console(width=110).print(table)


def embedded(view: View, images: ImageSet, raw: bool = False) -> Vectors:
    """Unit vectors [n, d], or raw embeddings, in the order of the images; zero where one cannot be read, which is told."""
    device = next(view.descriptor.parameters()).device
    dataset = ProtocolImages(images, view.size, view.protocol)
    batches = SameShapeBatches(shapes_of(dataset), BATCH)
    result: Tensor | None = None
    broken: list[int] = []
    with torch.inference_mode(), tqdm(total=len(images), desc="embedding", unit="image", leave=False) as bar:
        for rows, (pixels, readable) in zip(batches, DataLoader(dataset, batch_sampler=batches), strict=True):
            shown = normalized(pixels.to(device), view.descriptor.mean, view.descriptor.std)
            vectors = view.descriptor(shown, raw=raw).float().cpu() * readable[:, None]
            result = torch.zeros(len(images), vectors.shape[1]) if result is None else result
            result[rows] = vectors
            broken += [row for row, fine in zip(rows, readable.tolist(), strict=True) if not fine]
            bar.update(len(rows))
    if broken and not raw:
        first = images.paths[min(broken)]
        print(f"{len(broken)} of {len(images)} images cannot be read and match nothing, the first is {first}")
    return result.numpy() if result is not None else np.zeros((0, view.descriptor.dimensions), np.float32)


def _of_classes(view: View, labelled: LabelledImages) -> dict[str, float]:
    vectors = embedded(view, labelled.images)
    figures = {f"Recall@{k}": value for k, value in recall_at(vectors, labelled.labels).items()}
    s, lower, upper = mean_singular_value(vectors)
    figures["NMI"] = normalized_mutual_information(vectors, labelled.labels)
    return figures | {"s": s, "s: lower bound": lower, "s: upper bound": upper}


def _of_ranking(view: View, found: RetrievalSet) -> dict[str, float]:
    vectors = embedded(view, found.images)
    return {"mAP": mean_average_precision(vectors[found.queries], vectors, found.relevant, found.ignored)}


def _of_groups(view: View, labelled: LabelledImages) -> dict[str, float]:
    return {"UKB score (of 4)": ukb_score(embedded(view, labelled.images), labelled.labels)}


def _of_class_folders(options: argparse.Namespace, view: View) -> dict[str, float]:
    """With a classifier its classes must be these folders, by name and number as in training."""
    labelled, checkpoint = read_class_folders(options.root), Path(options.checkpoint)
    figures = _of_classes(view, labelled)
    if has_classifier(checkpoint) and not view.descriptor.settings.domains:
        weight, bias = load_classifier(checkpoint)
        if len(weight) != len(labelled.names):
            print(f"no top-1: the classifier tells {len(weight)} classes apart, {options.root} has {len(labelled.names)}")
        else:
            raw, whitening = torch.from_numpy(embedded(view, labelled.images, raw=True)), whitening_of(view.descriptor.cpu())
            logits = raw @ weight.T + bias if whitening is None else folded_logits(raw, whitening, weight, bias)
            best = logits.topk(min(5, len(weight)), dim=1).indices.numpy() == labelled.labels[:, None]
            figures |= {"top-1": float(best[:, 0].mean()), "top-5": float(best.any(axis=1).mean())}
    return figures


READERS: dict[str, Callable[[argparse.Namespace, View], dict[str, float]]] = {
    "holidays": lambda options, view: _of_ranking(view, read_holidays(options.root)),
    "copydays": lambda options, view: _of_ranking(view, read_copydays(options.root, distractors=options.distractors)),
    "ukb": lambda options, view: _of_groups(view, read_ukb(options.root)),
    "cub": lambda options, view: _of_classes(view, read_cub(options.root).test),
    "cars": lambda options, view: _of_classes(view, read_cars(options.root).test),
    "online_products": lambda options, view: _of_classes(view, read_online_products(options.root).test),
    "class_folders": _of_class_folders,
}
