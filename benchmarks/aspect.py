"""Edits in the images' own aspect against edits of squashed squares: equal trainings, and the speed of the edits.

    python benchmarks/aspect.py --data FOLDER [--epochs 60] [--seeds 3]

--data: a folder in the ISC2021 layout, with ground truth. Both ways share the seed and the number of steps. A third of the
training images is held out; synthetic queries are made from it, in its own aspect as every query is. µAP of these, and of the
folder's own queries.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import torch
from drip import embed_all, score
from rich.console import Console
from rich.table import Table

from image_copies.augmentations.dataset import EditedImages, overlay_material
from image_copies.augmentations.query_set import make_query_set
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import cache_images
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.data.layout import GROUND_TRUTH, QUERY, IscFolder, open_isc_folder
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network
from image_copies.models.settings import ModelSettings
from image_copies.models.training.trainer import train_model
from image_copies.submissions.scoring.metrics import evaluate

SIZE, BATCH, INTENSITY, OVERLAYS = 48, 64, 0.6, 40
ASPECTS: tuple[Literal["square", "own"], ...] = ("square", "own")


def measure_speed(images: ImageSet, folder: Path, epochs: int = 3) -> dict[str, float]:
    """Edited images per second of processor time, side by side in one process."""
    edits, size = AugmentationSettings(intensity=INTENSITY, extra=True), round(1.5 * SIZE)
    cached = {aspect: cache_images(images, size, folder, aspect=aspect) for aspect in ASPECTS}
    data = {a: EditedImages(found, edits, SIZE, 0, overlay_material(found, found, len(found))) for a, found in cached.items()}
    spent = dict.fromkeys(ASPECTS, 0.0)
    for epoch in range(epochs):
        for row in range(len(images)):
            for aspect in ASPECTS if row % 2 else ASPECTS[::-1]:
                began = time.process_time()
                data[aspect][epoch, row, 0]
                spent[aspect] += time.process_time() - began
    return {aspect: epochs * len(images) / seconds for aspect, seconds in spent.items()}


def train_and_score(
    data: IscFolder, aspect: Literal["square", "own"], epochs: int, seed: int, folder: Path
) -> tuple[float, float]:
    """µAP of synthetic queries and of the folder's own."""
    ids = data.training.ids
    held_out, learnt = data.training.select(ids[::3]), data.training.select([i for row, i in enumerate(ids) if row % 3])
    classes, overlays = learnt.select(learnt.ids[:-OVERLAYS]), learnt.select(learnt.ids[-OVERLAYS:])
    settings = ModelSettings.model_validate(
        {
            "descriptor": {"backbone": "test_efficientnet", "dimensions": 128},
            "optimizer": {"learning_rate": 2e-3, "class_learning_rate": 1e-2},
            "scheduler": {"kind": "constant"},
            "extra_edits": True,
            "aspect": aspect,
            "stages": [{"intensity": INTENSITY, "image_size": SIZE, "batch_size": BATCH, "epochs": epochs}],
        }
    )
    checkpoint = train_model(settings, classes, overlays, folder / f"{aspect}-{seed}", folder / "cache", seed)
    descriptor = require_trained_network(load_descriptor(checkpoint), checkpoint)
    queries = folder / "queries"
    if not queries.exists():
        edits = AugmentationSettings(intensity=INTENSITY, extra=True)
        half = held_out.ids[: len(held_out) // 2]
        others = held_out.select([i for i in held_out.ids if i not in set(half)])
        make_query_set(held_out.select(half), others, learnt, edits, 0, 4 * len(half), 2 * len(half), queries)
    asked, among = (embed_all(descriptor, SIZE, images) for images in (find_images(queries / QUERY), held_out))
    synthetic = evaluate(asked, among, read_ground_truth(queries / GROUND_TRUTH))[0].micro_average_precision
    return synthetic, score(data, descriptor, SIZE)


def main() -> None:
    """Measure the speed, train both ways with each seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    data = open_isc_folder(options.data)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        speed = measure_speed(data.training, folder / "cache")
        print(f"edits: squares {speed['square']:.0f}, own aspect {speed['own']:.0f} images/s", flush=True)
        found: dict[str, list[tuple[float, float]]] = {aspect: [] for aspect in ASPECTS}
        for seed in range(options.seeds):
            for aspect in ASPECTS:
                found[aspect].append(train_and_score(data, aspect, options.epochs, seed, folder))
                print(
                    f"seed {seed}, {aspect}: µAP of synthetic queries {found[aspect][-1][0]:.3f}, of the folder's "
                    f"{found[aspect][-1][1]:.3f}",
                    flush=True,
                )
    table = Table("edits of", "µAP, synthetic queries", "µAP, the folder's queries")
    for way, scores in found.items():
        mean, spread = np.mean(scores, axis=0), np.std(scores, axis=0, ddof=1) if len(scores) > 1 else (0.0, 0.0)
        table.add_row(way, *(f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, spread, strict=True)))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
