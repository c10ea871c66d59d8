"""Step 04's work: query normalisation against the training vectors (ISC2021 paper, section 2.7)."""

from image_copies.data.errors import prefix_errors
from image_copies.submissions.ensemble import normalization, projection
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.vectors.files import open_vectors, read_vectors, write_vectors

from ..run.run import Run
from ..run.step import search_on_gpu


@search_on_gpu()
def normalize(run: Run) -> None:
    """Normalise the queries by the chosen variant and write them.

    Raises:
        UserError: when a training image is also a query or a reference, there are too few training images, or a file cannot be
            read.
    """
    paths = run.paths
    variant, _ = read_choice(paths.choice)
    queries = read_vectors(paths.projected("query"))
    training = open_vectors(paths.projected("training"))
    references = open_vectors(paths.projected("reference"))
    projection.require_training_only(training.ids, {"query": queries.ids, "reference": references.ids})
    with prefix_errors(paths.projected("training")):
        moved = normalization.normalize_by_variant(
            queries.vectors, training.readable(), variant, run.recipe.normalization
        )
    write_vectors(paths.normalized_queries, queries.ids, [moved], queries.unreadable)
