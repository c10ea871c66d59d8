"""A run as the matcher uses it: its models, projection and normalisation as one extractor, and its own data for the threshold."""

import json
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from image_copies.data.arrays import Float32s
from image_copies.data.commands import name_command, name_install
from image_copies.data.errors import UserError, prefix_errors
from image_copies.data.images import find_images
from image_copies.matching import threshold
from image_copies.matching.extractor import (
    Extractor,
    Normalizer,
    digest_files,
)
from image_copies.models.inference import embedders, onnx_embedder, settings
from image_copies.models.shipped import SHIPPED
from image_copies.submissions.ensemble.projection import load_projection
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.vectors.files import Vectors, read_vectors

from ..run.run import Run, assign_training_roles
from ..run.step import report_stale
from ..steps.definitions import NORMALIZE, STEPS
from ..steps.vectors import write_blocks


def run_extractor(run: Run) -> Extractor:
    """Open a whole run: all models, projection and normalisation.

    Raises:
        UserError: when a step has not been done, which the message names, a file cannot be read, or torch is not installed.
    """
    if find_spec("torch") is None:
        raise UserError(
            f"{run.folder} is a run, whose networks need torch. Install it with: {name_install('train')}; or search with "
            f"the descriptor that ships: --checkpoint {SHIPPED}"
        )
    # imported here: torch takes seconds
    from image_copies.models.inference.torch_embedder import load_embedder

    own = run_embeddings(run)
    projection_file = run.require(run.paths.projection)
    normalizer = run_normalizer(run)
    variant = normalizer.variant
    projection = load_projection(projection_file)
    files, networks = list[Path](), list[embedders.Embedder]()
    for name, model in run.recipe.models.items():
        if isinstance(model, settings.OnnxModelSettings):
            files.append(model.file)
            networks.append(onnx_embedder.open_onnx(model.file, size=model.image_size))
        else:
            files.append(run.require(run.checkpoint(name)))
            networks.append(load_embedder(files[-1], run.embedding(name)))

    def project(vectors: Float32s) -> Float32s:
        return projection.apply(vectors, variant.dimensions, variant.eigen_power)

    made_from = {
        "embedding": [
            one.what_makes_vectors().model_dump(mode="json", exclude_defaults=True) for one in own
        ],
        "dimensions": variant.dimensions,
        "eigen_power": variant.eigen_power,
    }
    return Extractor(
        networks=networks,
        settings=run.recipe.embedding,
        project=project,
        dimensions=variant.dimensions,
        identity=digest_files([*files, projection_file], made_from),
        normalizer=normalizer,
        calibrate=partial(calibrate_on_run, run, normalizer),
        source=partial(run_extractor, replace(run, folder=run.folder.absolute(), data=run.data.absolute())),
        files=tuple(path.absolute() for path in [*files, projection_file]),
    )


def run_normalizer(run: Run) -> Normalizer:
    """Open the query normalisation that a run chose, and report the steps that are stale.

    Raises:
        UserError: when a step has not been done, which the message names, or a file cannot be read.
    """
    report_stale(run, STEPS[: STEPS.index(NORMALIZE)])
    variant, _ = read_choice(run.require(run.paths.choice))
    return Normalizer(
        read_vectors(run.require(run.paths.projected("training"))), variant, run.recipe.normalization
    )


def run_checkpoints(run: Run) -> list[Path]:
    """Return the last checkpoint of each model, in the order in which their vectors are concatenated.

    Raises:
        UserError: when a model has not been trained, or is an ONNX file.
    """
    for name in run.recipe.models:
        if name not in run.recipe.networks:
            raise UserError(
                f"{name} of {run.folder} is an ONNX file, which is not written into another file. Search with the run itself: "
                f"{name_command('match')} --run {run.folder}"
            )
    return [run.require(run.checkpoint(name)) for name in run.recipe.networks]


def run_embeddings(run: Run) -> list[settings.EmbeddingSettings]:
    """Return the embedding settings of each model, in the same order as `run_checkpoints`."""
    return [run.embedding(name) for name in run.recipe.models]


def held_out_ids(run: Run) -> list[str]:
    """Return the ids of the training images that validate: synthetic queries are made from them and compared with them."""
    roles = assign_training_roles(run)
    return roles.references.ids + roles.distractors.ids


def calibrate_on_run(run: Run, normalizer: Normalizer, training: Vectors | None = None) -> threshold.Tail:
    """Fit the tail on the run's own data.

    The synthetic queries of step 00 are compared with the validation images that they were not made from, normalised against the
    other training images, as in the choice of the variant. `training` are the vectors of all training images, by default those of
    the normaliser.

    Raises:
        UserError: when steps 00 to 03 have not been done, or there are too few pairs.
    """
    records = run.require(run.paths.query_records)
    synthetic = read_vectors(run.require(run.paths.projected("synthetic")))
    with prefix_errors(run.paths.projected("training")):
        held_out = (training or normalizer.training).rows(held_out_ids(run))
        outside, against = set(held_out.ids), normalizer.training
        others = against.rows([image_id for image_id in against.ids if image_id not in outside])
        queries = Normalizer(others, normalizer.variant, normalizer.settings)(synthetic.vectors)
    sources = {
        line["query_id"]: line["source_id"]
        for line in map(json.loads, records.read_text("utf-8").splitlines())
    }
    readable = np.flatnonzero(~held_out.unreadable).tolist()
    where = {held_out.ids[row]: place for place, row in enumerate(readable)}
    asked = np.flatnonzero(~synthetic.unreadable).tolist()
    own = np.array([where.get(sources[synthetic.ids[row]], -1) for row in asked], np.int64)
    return threshold.fit_tail(queries[asked], held_out.readable(), own)


def embed_by_extractor(
    extractor: Extractor, folder: Path, output: Path, workers: int | None = None
) -> None:
    """Embed a folder as step 02 does, with networks that its torch does not run; ids are the paths below it, without extension.

    Raises:
        UserError: when the folder holds no image, or the disk is full.
    """
    images = find_images(folder, naming="path")
    extractor = replace(extractor, settings=extractor.settings.model_copy(update={"workers": workers}))
    write_blocks(extractor.extract(images), images, output)
    print(f"vectors: {output}", flush=True)
