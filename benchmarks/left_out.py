"""What the other families of edits teach about one that was left out: trainings with and without it, tested on that family alone.

    python benchmarks/left_out.py DIR --results left-out.json [--families geometry crop …] [--seeds 1]

The trainings are those of ablation.py. Held-out training images of DIR (ISC2021 layout) are the references; half of the queries
are copies of them, edited by nothing but the family (intensity 0.7), half are edited images that copy nothing. Results are kept
in a file: a stopped benchmark goes on.
"""

import argparse
import tempfile
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from ablation import LEARNT, OVERLAYS, describe_base
from measurements import Figures, Measurements
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from image_copies.augmentations.composition import list_edits
from image_copies.augmentations.dataset import CachedOverlays, EditedImages, normalize_pixels
from image_copies.augmentations.settings import AugmentationSettings, EditFamily
from image_copies.data.cache import CachedImages, cache_images
from image_copies.data.ground_truth import GroundTruth
from image_copies.data.images import ImageSet
from image_copies.data.layout import open_isc_folder
from image_copies.models.network.base import ImageDescriptor
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import train_model
from image_copies.pipeline.run.cli import report_errors
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors

HELD_OUT = 1200  # images: half of them references, half the origin of queries that copy nothing
IMAGE_SIZE, INTENSITY = 48, 0.7


def list_learnt_families() -> list[EditFamily]:
    """The families that a training with the extra edits learns from."""
    learnt = {row.family for row in list_edits(AugmentationSettings(family="query", intensity=1.0, extra=True))}
    return [family for family in get_args(EditFamily) if family in learnt]


def score_families(descriptor: ImageDescriptor, images: CachedImages, overlays: CachedOverlays) -> Figures:
    """µAP of queries that each learnt family alone has made, by family."""
    half = len(images) // 2
    clean = EditedImages(images, AugmentationSettings(family="none"), IMAGE_SIZE, 0)
    references = Vectors(list(images.ids[:half]), embed(descriptor, clean, range(half)), np.zeros(half, bool))
    queries = [f"q{row}" for row in range(2 * half)]
    truth = GroundTruth(queries, frozenset(zip(queries[:half], references.ids, strict=True)))
    figures = Figures()
    for family in list_learnt_families():
        edited = EditedImages(images, AugmentationSettings(intensity=INTENSITY, only=(family,)), IMAGE_SIZE, 1, overlays)
        asked = Vectors(queries, embed(descriptor, edited, range(2 * half)), np.zeros(2 * half, bool))
        figures[family] = evaluate(asked, references, truth)[0].micro_average_precision
    return figures


@torch.no_grad()
def embed(descriptor: ImageDescriptor, images: EditedImages, rows: range, batch: int = 100) -> NDArray[np.float32]:
    """Unit vectors [n, d] of edited images."""
    found = []
    for start in range(rows.start, rows.stop, batch):
        pixels = torch.stack([images[0, row, 0][0] for row in range(start, min(start + batch, rows.stop))])
        found.append(descriptor(normalize_pixels(pixels, descriptor.mean, descriptor.std)))
    return torch.cat(found).numpy()


def draw_images(root: Path) -> tuple[ImageSet, ImageSet, ImageSet]:
    """The images to learn from, to paste, and held out."""
    training = open_isc_folder(root).training
    drawn = [training.ids[row] for row in np.random.default_rng(0).permutation(len(training))]
    ends = (LEARNT, LEARNT + OVERLAYS, LEARNT + OVERLAYS + HELD_OUT)
    return training.select(drawn[: ends[0]]), training.select(drawn[ends[0] : ends[1]]), training.select(drawn[ends[1] : ends[2]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DIR")
    parser.add_argument("--families", nargs="*", default=list_learnt_families(), choices=list_learnt_families())
    parser.add_argument("--results", type=Path, default=Path("left-out.json"), help="default: left-out.json")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each kind (default: 1)")
    options = parser.parse_args()
    table = Table("family", "µAP, learnt", "left out", "difference", title=f"{options.data.name}: queries of one family")
    with report_errors(), tempfile.TemporaryDirectory() as folder:
        store = Measurements.open(options.results)
        classes, pasted, held_out = draw_images(options.data)

        def train_without(left_out: EditFamily | None, seed: int) -> Figures:
            print(f"without {left_out}, seed {seed}", flush=True)
            model = describe_base() | ({} if left_out is None else {"without_edits": [left_out]})
            place, cache = Path(folder) / f"{left_out}-{seed}", Path(folder) / "cache"
            settings = ModelSettings.model_validate(model)
            path = train_model(settings, classes, pasted, place, cache, seed, None, name="left out")
            images, overlays = (cache_images(part, 72, cache) for part in (held_out, pasted))
            material = CachedOverlays((overlays, overlays.readable_rows()))
            return score_families(load_descriptor(path).descriptor.eval(), images, material)

        about = {"part": "left out", "data": options.data.name, "model": describe_base()}
        seeds = range(options.seeds)
        learnt = store.measure("all families", about, seeds, lambda seed: train_without(None, seed))
        for family in options.families:
            without = store.measure(f"without {family}", about, seeds, lambda seed, family=family: train_without(family, seed))  # type: ignore[misc]
            means = [float(np.mean([figures[family] for figures in part])) for part in (learnt, without)]
            table.add_row(family, f"{means[0]:.3f}", f"{means[1]:.3f}", f"{means[1] - means[0]:+.3f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
