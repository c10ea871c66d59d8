"""Calibration of the threshold: the tail of unrelated pairs' distances, from a run's own data or from any pictures."""

import json

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import prefix_errors
from image_copies.data.images import ImageSet
from image_copies.matching.extractor import Extractor, Normalizer
from image_copies.matching.filling import embed_pictures
from image_copies.matching.index.calibration import Tail, fit_tail
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.training_roles import assign_training_roles
from image_copies.submissions.vectors.files import Vectors, read_vectors


def calibrate_on_run(run: Run, extractor: Extractor) -> Tail:
    """Fit the tail on the run's own data.

    The synthetic queries of step 00 are compared with the validation images that they were not made from, normalised against the
    other training images, as in the choice of the variant.

    Raises:
        UserError: when steps 00 to 03 have not been done, or there are too few pairs.
        ValueError: when the extractor has no query normalisation, so that it is not a run's.
    """
    normalizer = extractor.normalizer
    if normalizer is None:
        raise ValueError("only a run's extractor can be calibrated on the run")
    records = run.require(run.paths.query_records)
    synthetic = read_vectors(run.require(run.paths.projected("synthetic")))
    roles, training = assign_training_roles(run), normalizer.training
    with prefix_errors(run.paths.projected("training")):
        held_out = training.rows(roles.references.ids + roles.distractors.ids)
        outside = set(held_out.ids)
        others = training.rows([image_id for image_id in training.ids if image_id not in outside])
        queries = Normalizer(others, normalizer.variant, normalizer.settings)(synthetic.vectors)
    sources = {line["query_id"]: line["source_id"] for line in map(json.loads, records.read_text("utf-8").splitlines())}
    where = {image_id: row for row, image_id in enumerate(held_out.ids)}
    own = np.array([where[sources[query_id]] for query_id in synthetic.ids], np.int64)
    return fit_tail_of_readable(Vectors(synthetic.ids, queries, synthetic.unreadable), held_out, own)


def calibrate_on_images(extractor: Extractor, images: ImageSet) -> Tail:
    """Fit the tail on unedited pictures that are not copies of each other: each is compared with all others.

    Raises:
        UserError: when there are too few pairs.
    """
    vectors = embed_pictures(extractor, images, "embedding unrelated pictures")
    rows = np.arange(len(vectors))
    queries = Vectors(vectors.ids, extractor.normalize(vectors.vectors), vectors.unreadable)
    return fit_tail_of_readable(queries, vectors, rows)


def fit_tail_of_readable(queries: Vectors, references: Vectors, own: NDArray[np.int64]) -> Tail:
    """Fit the tail on readable images only.

    Args:
        queries: The queries, n of them.
        references: The references.
        own: int64 [n], row of the reference that each query is related to; −1 for none.

    Raises:
        UserError: when there are too few pairs.
    """
    readable = np.flatnonzero(~references.unreadable)
    place = np.full(len(references) + 1, -1)  # the last one stands for "related to none"
    place[readable] = np.arange(len(readable))
    return fit_tail(queries.readable(), references.readable(), place[own[~queries.unreadable]])
