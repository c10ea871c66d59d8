"""What is left of a run takes: seconds of every step, measured here in a few seconds, and disk space."""

import json
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path

import numpy as np

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.files import write_text
from image_copies.data.ground_truth import GroundTruth
from image_copies.data.layout import open_isc_folder
from image_copies.data.process import describe_seconds, usable_cores
from image_copies.models.device import best_device
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import FileModelSettings
from image_copies.models.network.checkpoint import Checkpoint, load_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.handmade import IMAGE_SIZE, HandmadeDescriptor
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.plan import describe_machine, plan_model
from image_copies.pipeline.run.paths import SETS
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.training_roles import assign_training_roles
from image_copies.pipeline.steps.augment import make_queries
from image_copies.pipeline.steps.definitions import STEPS, has_ground_truth
from image_copies.pipeline.steps.train import check_models
from image_copies.submissions.ensemble.normalization import list_betas
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors

GIB = 2**30  # bytes
TIMED = 8  # images that are edited and embedded, after as many for warming up
MAX_ROWS = 2000  # queries and references of a search
VECTOR_BYTES, FILES_OF_VECTORS = 4, 3  # of a number, and files that hold a set's: each model's, projected, submitted


def report_time_left(run: Run) -> None:
    """Measure what every step that is left takes, note it for the lines with which steps begin, and print the sum in a line.

    A training counts with all its epochs, the last steps with their searches, and each with what this command took to begin.

    Raises:
        UserError: As for `check_models`, or when a model cannot be trained at a stage's image size.
    """
    made = {step.name: all(path.exists() for product in step.products(run) for path in product.outputs) for step in STEPS}
    left = list(dropwhile(made.__getitem__, made))
    if not left:
        run.paths.time_left.unlink(missing_ok=True)
        return
    begun = time.process_time()
    check_models(run)
    folder, recipe = open_isc_folder(run.data), run.recipe
    sizes = len(run.training_images), len(folder.reference), len(folder.query), recipe.queries.count
    counts, roles = dict(zip(SETS, sizes, strict=True)), assign_training_roles(run)
    training, embedding, disk, width = 0.0, 0.0, 0, 0
    for name in recipe.networks:
        model = recipe.trained_models.get(name)
        if model is not None and not run.checkpoint(name).exists():
            stages = plan_model(model, len(roles.classes), 1, roles.labels)
            waiting = [stage for stage in stages if not run.paths.checkpoint(name, stage.stage).exists()]
            training += sum(stage.most_seconds for stage in waiting)
            disk = max([disk, *(stage.disk + stage.state for stage in waiting)])
        of_image, dimensions = _time_embedding(run, name)
        embedding += of_image * sum(counts[part] for part in SETS if not run.paths.embeddings(name, part).exists())
        width += dimensions
    queries = recipe.queries.count * _time_queries(run) if "00_augment" in left else 0.0
    baselines = 2 * sum(sizes[:3]) * _time_decoding(run) if recipe.baselines and has_ground_truth(run) else 0.0
    searches = _time_searches(run, counts)
    work = zip(made, (queries, training, embedding, *searches[:-1], searches[-1] + baselines), strict=True)
    seconds = {step: begun + spent for step, spent in work if step in left}
    write_text(run.paths.time_left, json.dumps(seconds))
    needed, free = disk + FILES_OF_VECTORS * VECTOR_BYTES * width * sum(sizes), describe_machine(run.folder).disk
    short = "" if needed < free else ", which is too little: make room, or name a folder on another disk with --run"
    total = describe_seconds(sum(seconds.values()))
    print(f"about {total} here, and {needed / GIB:.2f} GiB of disk, of {free / GIB:.2f} GiB free{short}")


def _time_searches(run: Run, counts: Mapping[str, int]) -> list[float]:
    """Return the seconds of steps 03 to 06 by their searches, of which one is made here, of random vectors."""
    ensemble, normalization = run.recipe.ensemble, run.recipe.normalization
    held_out = round(run.recipe.split.validation * counts["training"])
    queries, references = min(counts["synthetic"], MAX_ROWS), min(max(held_out, 1), MAX_ROWS)
    rng = np.random.default_rng(0)
    sets = [rng.standard_normal((rows, max(ensemble.dimensions)), np.float32) for rows in (queries, references)]
    one, other = (Vectors([str(row) for row in range(len(rows))], rows, np.zeros(len(rows), bool)) for rows in sets)
    start = time.perf_counter()
    evaluate(one, other, GroundTruth(one.ids, frozenset(zip(one.ids[::2], other.ids, strict=False))))
    of_pair = (time.perf_counter() - start) / (queries * references)
    tried = sum(len(list_betas(normalization, method)) for method in normalization.methods)
    tried *= len(ensemble.dimensions) * len(ensemble.eigen_power) * len(ensemble.weightings(list(run.recipe.models)))
    scored = len(run.recipe.models) + len(normalization.methods) + 3  # the baselines and the submission
    pairs = counts["query"] * counts["reference"]
    halves = 1 if run.recipe.queries.left_out is None else 2
    numbers = tried * halves * counts["synthetic"] * held_out, counts["query"] * counts["training"], pairs, scored * pairs
    return [number * of_pair for number in numbers]


def _time_decoding(run: Run) -> float:
    start = time.perf_counter()
    for path in run.training_images.paths[:TIMED]:
        with suppress(ImageError):
            decode_rgb(path)
    return (time.perf_counter() - start) / TIMED / usable_cores()


def _time_queries(run: Run) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        make_queries(run, Path(folder) / "queries", TIMED)
        return (time.perf_counter() - start) / TIMED / usable_cores()


def _time_embedding(run: Run, name: str) -> tuple[float, int]:
    """Return the seconds that a model takes for an image, and the dimensions of its vectors."""
    settings, images = run.recipe.networks[name], run.training_images
    if isinstance(settings, ModelSettings):
        network = Checkpoint(Descriptor(settings.descriptor, load_weights=False), settings.stages[-1].image_size, {})
    elif isinstance(settings, FileModelSettings):
        network = load_descriptor(settings.weights_file)
    else:
        network = Checkpoint(HandmadeDescriptor(settings.descriptor_settings()), IMAGE_SIZE, {})
    network.descriptor.eval()
    how = run.embedding(name).model_copy(update={"workers": 0, "batch_size": TIMED})
    for first in (0, TIMED):  # the first ones warm up
        start = time.perf_counter()
        vectors = [block.vectors for block in embed_images(network, images.select(images.ids[first : first + TIMED]), how)]
        spent = time.perf_counter() - start
    at_once = usable_cores() if best_device().type == "cpu" else 1
    return spent / TIMED / at_once, vectors[0].shape[1]
