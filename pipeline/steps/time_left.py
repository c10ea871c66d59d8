"""What is left of a run takes: seconds of every step, by a few images that are edited and embedded here, and disk space."""

import json
import shutil
import tempfile
import time
from itertools import dropwhile
from pathlib import Path

import torch

from image_copies.data.files import write_text
from image_copies.data.layout import open_isc_folder
from image_copies.data.process import describe_seconds, usable_cores
from image_copies.models.device import autocast, best_device
from image_copies.models.network.base import ImageDescriptor
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import WORKING_SCALE
from image_copies.pipeline.run.paths import SETS
from image_copies.pipeline.run.run import Run, assign_training_roles
from image_copies.pipeline.steps.augment import make_queries
from image_copies.pipeline.steps.definitions import STEPS
from image_copies.pipeline.steps.train import check_models

GIB = 2**30  # bytes
TIMED = 8  # images that are edited
PAIRS = 2e8  # that a search compares in a second
PASS_PIXELS = {"cpu": 250_000, "cuda": 4_000_000}  # of the images of a pass that is timed
CACHE_BYTES = {"pixels": 3.0, "jpeg": 0.3}  # of a pixel of the image cache
STATE_BYTES = 28  # of a weight: a state with Adam's two moments, which is there twice while it is replaced, and a checkpoint
VECTOR_BYTES = 12  # of a number, in three files: each model's, projected, submitted


def report_time_left(run: Run) -> None:
    """Estimate what every step that is left takes, note it for the lines with which steps begin, and print the sum in a line.

    A training counts with all its epochs, and without its class matrix; each step with what this command took to begin.

    Raises:
        UserError: As for `check_models`.
    """
    made = {step.name: all(path.exists() for product in step.products(run) for path in product.outputs) for step in STEPS}
    left = list(dropwhile(made.__getitem__, made))
    if not left:
        run.paths.time_left.unlink(missing_ok=True)
        return
    seconds = dict.fromkeys(made, time.process_time())
    check_models(run)
    folder, recipe = open_isc_folder(run.data), run.recipe
    sizes = len(run.training_images), len(folder.reference), len(folder.query), recipe.queries.count
    counts = dict(zip(SETS, sizes, strict=True))
    with tempfile.TemporaryDirectory() as place:
        for name in ("first", "second"):  # the first ones also load what they need
            start = time.perf_counter()
            make_queries(run, Path(place) / name, TIMED)
        of_edit = (time.perf_counter() - start) / TIMED / usable_cores()  # decoding included, on all cores
    seconds["00_augment"] += counts["synthetic"] * of_edit
    disk = width = 0
    for name, settings in recipe.networks.items():
        built, trained = settings.build(), recipe.trained_models.get(name)
        network = built.descriptor.to(best_device())
        if trained and not run.checkpoint(name).exists():
            spent, needed = _plan_training(run, name, trained, network, of_edit)
            seconds["01_train"] += spent
            disk = max(disk, needed)
        waiting = sum(counts[part] for part in SETS if not run.paths.embeddings(name, part).exists())
        seconds["02_embed"] += waiting * (
            of_edit + _time_pass(network, built.image_size, run.embedding(name).precision, learns=False)
        )
        width += network.dimensions
    for step in ("03_ensemble", "04_normalize", "05_submit", "06_score"):
        seconds[step] += counts["query"] * counts["reference"] / PAIRS
    write_text(run.paths.time_left, json.dumps({step: seconds[step] for step in left}))
    needed, free = disk + VECTOR_BYTES * width * sum(sizes), shutil.disk_usage(run.folder).free
    short = "" if needed < free else ", which is too little: make room, or name a folder on another disk with --run"
    total = describe_seconds(sum(seconds[step] for step in left))
    print(f"about {total} here, and {needed / GIB:.2f} GiB of disk, of {free / GIB:.2f} GiB free{short}")


def _plan_training(run: Run, name: str, settings: ModelSettings, network: ImageDescriptor, of_edit: float) -> tuple[float, int]:
    """Return the seconds of the stages that a model has still to learn, and the bytes of disk that the largest needs."""
    images = len(assign_training_roles(run).classes)
    weights = sum(parameter.numel() for parameter in network.parameters())
    seconds, disk = 0.0, 0
    for number, stage in enumerate(settings.stages, 1):
        if run.paths.checkpoint(name, number).exists():
            continue
        classes = min(stage.classes or images, images)
        batches = settings.iterations_of(stage)
        seen = classes if batches is None else batches * stage.batch_size
        seconds += stage.epochs * seen * (of_edit + _time_pass(network, stage.image_size, settings.precision, learns=True))
        pixels = images * (stage.image_size * WORKING_SCALE) ** 2
        disk = max(disk, int(pixels * CACHE_BYTES[settings.cache]) + STATE_BYTES * (weights + classes * network.dimensions))
    return seconds, disk


def _time_pass(network: ImageDescriptor, size: int, precision: str, learns: bool) -> float:
    """Return the seconds that an image of `size` pixels takes of a pass through the network, and back where it learns."""
    device = best_device()
    count = max(2, PASS_PIXELS[device.type] // size**2)
    images = torch.randn(count, 3, size, size, device=device)
    network.train(learns)
    with torch.set_grad_enabled(learns), autocast(device, precision):
        for _ in range(2):  # the first allocates and chooses algorithms
            start = time.perf_counter()
            vectors = network(images)
            if learns:
                vectors.sum().backward()
            vectors.sum().item()  # waits for a GPU
    return (time.perf_counter() - start) / count
