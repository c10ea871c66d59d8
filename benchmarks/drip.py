"""Drip training against starting with all classes at once: the same network, edits, minutes and classes.

    python benchmarks/drip.py [--data FOLDER] [--classes 10000] [--minutes 6] [--seeds 2] [--plot drip.png]

--data is a folder in the ISC2021 layout. Without it, tiny.zip from the folder that COPYSETS names is unpacked into a temporary
folder; if there is none, the built-in sample is drawn. µAP is measured on the set's queries, which take part in neither
training nor any choice. The minutes include rebuilding the class matrix, but not validation.
"""

import argparse
import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet
from image_copies.data.layout import IscFolder, open_isc_folder
from image_copies.models.inference.embed import embed_images
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.settings import EmbeddingSettings, ModelSettings
from image_copies.models.training.curve import read_rows
from image_copies.models.training.trainer import train_model
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors

OVERLAYS = 500  # training images that are pasted from, not trained on
STAGE_SHARES = ((0.05, 0.15), (0.2, 0.25), (1.0, 0.6))  # share of the classes, share of the minutes, stage by stage
Point = tuple[float, float, float | None]  # minutes, loss, µAP


def make_settings(backbone: str, size: int, classes: int, minutes: float, drip: bool) -> ModelSettings:
    """Return the settings of a training; both kinds differ only in their stages.

    Args:
        backbone: Name of a timm model.
        size: Side of the square input in pixels.
        classes: Number of classes at the end.
        minutes: Duration of the training.
        drip: Whether to add classes stage by stage.
    """
    common = {"intensity": 0.5, "image_size": size, "batch_size": 128, "epochs": 100_000, "validate_minutes": minutes / 6}
    growth = STAGE_SHARES if drip else ((1.0, 1.0),)
    stages = [common | {"classes": max(2, int(share * classes)), "minutes": part * minutes} for share, part in growth]
    return ModelSettings.model_validate(
        {
            "descriptor": {"backbone": backbone, "dimensions": 256},
            "optimizer": {"learning_rate": 2e-3, "class_learning_rate": 1e-2},
            "scheduler": {"kind": "constant"},
            "stages": stages,
        }
    )


def train_and_validate(data: IscFolder, model: ModelSettings, folder: Path, cache: Path, classes: int, seed: int) -> list[Point]:
    """Train one network and return its curve: minutes, loss and, where it was validated, µAP of each epoch."""
    ids = data.training.ids
    learnt, overlays = data.training.select(ids[:classes]), data.training.select(ids[-OVERLAYS:])
    train_model(model, learnt, overlays, folder, cache, seed, validate=lambda descriptor, size: score(data, descriptor, size))
    points, before, last = list[Point](), 0.0, 0.0
    for row in read_rows(folder):
        if row["epoch"] == "1":
            before += last
        last = float(row["seconds"])
        points.append(((before + last) / 60, float(row["loss"]), float(row["validation"]) if row["validation"] else None))
    return points


def score(data: IscFolder, descriptor: Descriptor, size: int, flip: bool = False) -> float:
    """Return µAP 0…1 of the data set's queries, of vectors with or without the mirror image's."""
    truth = read_truth(data)
    queries, references = (embed_all(descriptor, size, images, flip) for images in (data.query, data.reference))
    return evaluate(queries, references, truth)[0].micro_average_precision


def read_truth(data: IscFolder) -> GroundTruth:
    if data.ground_truth is None:
        raise SystemExit(f"{data.root} has no public_ground_truth.csv to score against")
    return read_ground_truth(data.ground_truth)


def embed_all(descriptor: Descriptor, size: int, images: ImageSet, flip: bool = False) -> Vectors:
    blocks = list(embed_images(Checkpoint(descriptor, size, {}), images, EmbeddingSettings(flip=flip)))
    return Vectors(images.ids, np.concatenate([b.vectors for b in blocks]), np.concatenate([b.unreadable for b in blocks]))


def find_data(given: Path | None, temporary: Path) -> Path:
    """Return the given folder, the unpacked tiny set, or a sample that is drawn into `temporary`."""
    if given is not None:
        return given
    archive = Path(os.environ.get("COPYSETS", ".")) / "tiny.zip"
    if not archive.is_file():
        from image_copies.pipeline.tools.datasets import make_sample

        print("without --data, and without tiny.zip in the folder COPYSETS: using the built-in sample")
        make_sample(temporary / "sample", 0)
        return temporary / "sample"
    with zipfile.ZipFile(archive) as file:
        file.extractall(temporary / "tiny")
    return next(path.parent for path in (temporary / "tiny").rglob("training_images"))


def plot(curves: dict[tuple[str, int], list[Point]], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (losses, scores) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    colours = {"drip": "tab:blue", "all at once": "tab:red"}
    for (name, seed), points in curves.items():
        style = {"color": colours[name], "label": name if seed == 0 else None, "alpha": 1 if seed == 0 else 0.55}
        losses.plot([minute for minute, _, _ in points], [loss for _, loss, _ in points], **style)
        measured = [(minute, value) for minute, _, value in points if value is not None]
        scores.plot(*zip(*measured, strict=True), "o-", **style)
    losses.set(xlabel="minutes", ylabel="loss")
    scores.set(xlabel="minutes", ylabel="µAP", ylim=(0, None))
    losses.legend()
    scores.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER")
    parser.add_argument("--backbone", default="test_efficientnet", help="default: test_efficientnet")
    parser.add_argument("--classes", type=int, default=10_000, help="default: 10000, or all there are")
    parser.add_argument("--minutes", type=float, default=6.0, help="of each training (default: 6)")
    parser.add_argument("--image-size", type=int, default=48, help="default: 48")
    parser.add_argument("--seeds", type=int, default=2, help="trainings of each kind (default: 2)")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    options = parser.parse_args()
    curves: dict[tuple[str, int], list[Point]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = open_isc_folder(find_data(options.data, Path(folder)))
        classes = min(options.classes, len(data.training) - min(OVERLAYS, len(data.training) // 10))
        for seed in range(options.seeds):
            for name, drip in (("drip", True), ("all at once", False)):
                model = make_settings(options.backbone, options.image_size, classes, options.minutes, drip)
                place = Path(folder)
                curves[name, seed] = train_and_validate(data, model, place / f"{name}-{seed}", place / "cache", classes, seed)
    network = f"{options.backbone} at {options.image_size} px"
    table = Table(title=f"{data.root.name}: {network}, {classes:,} classes, {options.minutes:g} minutes each")
    for column in ("training", "seed", "epochs", "last loss", "µAP at the end", "best µAP"):
        table.add_column(column, justify="right")
    for (name, seed), points in curves.items():
        scores = [value for _, _, value in points if value is not None]
        table.add_row(name, str(seed), str(len(points)), f"{points[-1][1]:.2f}", f"{scores[-1]:.3f}", f"{max(scores):.3f}")
    Console(width=100).print(table)
    if options.plot:
        plot(curves, options.plot)


if __name__ == "__main__":
    main()
