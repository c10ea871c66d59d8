"""The choice of p*, GeM's exponent at test time, by search on IN-aug (MultiGrain, ICLR section 3.5)."""

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.arrays import Float32s
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.labels import LabelledImages, label_images, read_labels
from image_copies.data.layout import TRAINING, TRAINING_LABELS
from image_copies.data.process import choose_workers
from image_copies.models.device import best_device
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network
from image_copies.models.network.descriptor import Descriptor
from image_copies.pipeline.run.run import assign_training_roles, require_no_tests, run_of_checkpoint

from .in_aug import InAug, InAugImages, choose_in_aug
from .metrics import in_aug_accuracy

BATCH_SIZE = 64


def choose_exponent(
    checkpoint_file: Path,
    exponents: Sequence[float],
    images: int,
    seed: int,
    data: Path | None = None,
    sizes: Sequence[int] | None = None,
    workers: int | None = None,
) -> None:
    """Print the IN-aug accuracy of each exponent at each size, p*, and the recipe entry that embeds with it.

    At most `images` training images are edited, of a folder in the ISC2021 layout, of class folders or of images, by default
    those of the checkpoint's run; sizes are in pixels, by default the training size.

    Raises:
        UserError: when the checkpoint or the images cannot be read, or an image is a query or reference of the checkpoint's run.
    """
    checkpoint = load_descriptor(checkpoint_file)
    descriptor = require_trained_network(checkpoint, checkpoint_file).to(best_device()).eval()
    training = _training_images(checkpoint_file, data)
    _refuse_tests(checkpoint_file, training.images)
    sizes = list(dict.fromkeys(sizes or [checkpoint.image_size]))
    trained = (
        f"trained at {checkpoint.image_size} px with p {float(descriptor.pooling.exponent.detach()):.2f}"
    )
    print(f"{checkpoint_file}: {trained}")
    chosen = _search(
        descriptor, choose_in_aug(training, seed, images), sorted(set(exponents)), sizes, workers
    )
    for size, exponent in chosen.items():
        print(
            f"{size} px: p* {exponent:.4g}; in the recipe: embedding: {{image_size: {size}, pooling_exponent: {exponent:.4g}}}"
        )


def _refuse_tests(checkpoint: Path, images: ImageSet) -> None:
    """Check that p* is not fitted on queries or references of the checkpoint's run, where it has one whose data are there."""
    try:
        run = run_of_checkpoint(checkpoint)
    except UserError:  # its data set was moved
        return
    if run is not None:
        require_no_tests(run, images, "p*")


def _search(
    descriptor: Descriptor,
    copies: InAug,
    exponents: Sequence[float],
    sizes: Sequence[int],
    workers: int | None,
) -> dict[int, float]:
    """Return the best exponent at each size, the smallest among equals."""
    scores: dict[int, dict[float, float]] = {}
    for size in sizes:
        found = embed_at_exponents(
            descriptor, InAugImages(copies, size), exponents, workers=choose_workers(workers)
        )
        scores[size] = {
            exponent: in_aug_accuracy(vectors, copies.groups) for exponent, vectors in found.items()
        }
    best = {size: max(of_size, key=lambda exponent: of_size[exponent]) for size, of_size in scores.items()}
    print(
        f"IN-aug accuracy (1 to 5): {copies.copies} edited copies of each of {len(copies.sources)} training images"
    )
    table = Table()
    table.add_column("p", justify="right")
    for size in sizes:
        table.add_column(f"{size} px", justify="right")
    for exponent in exponents:
        table.add_row(
            f"{exponent:g}",
            *(f"{scores[size][exponent]:.4f}{' *' if exponent == best[size] else '  '}" for size in sizes),
        )
    Console(width=110).print(table)
    return best


def _training_images(checkpoint: Path, root: Path | None) -> LabelledImages:
    """Return the images below `root`, or the training images of the checkpoint's run, each its own class if it has no labels."""
    if root is None:
        run = run_of_checkpoint(checkpoint)
        if run is None:
            raise UserError(f"{checkpoint} is not part of a run; give the training images with --data DIR.")
        roles = assign_training_roles(run)
        labels = roles.classes.ids if roles.labels is None else [str(label) for label in roles.labels]
        return label_images(roles.classes, labels)
    if (root / TRAINING).is_dir():
        images = find_images(root / TRAINING)
        table = root / TRAINING_LABELS
        return read_labels(table, images) if table.is_file() else label_images(images, images.ids)
    images = find_images(root, naming="path")
    folders = [image_id.split("/", 1)[0] for image_id in images.ids]  # a loose image is its own class
    return label_images(images, folders)


def embed_at_exponents(
    descriptor: Descriptor,
    images: Dataset[tuple[Tensor, bool]],
    exponents: Sequence[float],
    workers: int = 0,
    raw: bool = False,
) -> dict[float, Float32s]:
    """Return vectors float32 [n, d], unit or `raw`, by exponent of GeM; the descriptor is left in evaluation mode.

    An item of `images` is (uint8 [3, size, size], whether the image could be read).
    """
    found: dict[float, list[Tensor]] = {exponent: [] for exponent in exponents}
    loader = DataLoader(images, BATCH_SIZE, num_workers=workers)
    descriptor.eval()
    device = descriptor.pooling.exponent.device
    with descriptor.pooling.set_exponent_temporarily(), torch.no_grad():
        for pixels, _ in tqdm(loader, desc="embedding", unit="batch", leave=False):
            normal = normalize_pixels(pixels.to(device), descriptor.mean, descriptor.std)
            features = descriptor.features(normal)
            for exponent, vectors in found.items():
                descriptor.pooling.set_exponent(exponent)
                vectors.append(descriptor.describe_features(features, raw=raw).cpu())
    return {exponent: torch.cat(vectors).numpy() for exponent, vectors in found.items()}
