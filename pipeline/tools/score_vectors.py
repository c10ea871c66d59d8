"""Scores of vectors outside a run."""

import json
from pathlib import Path

from image_copies.data.files import digest_file, write_text
from image_copies.data.ground_truth import read_ground_truth
from image_copies.pipeline.run.provenance import describe_origin
from image_copies.submissions.scoring.any_vectors import normalize_vectors, open_queries, open_references, rank_vectors


def score_vectors(
    queries: Path, references: Path, ground_truth: Path, training: Path | None = None, output: Path | None = None
) -> None:
    """Score files of vectors and print the scores as JSON, which `output` gets as well.

    With `training` vectors, the queries are normalised against them by method 2 with the paper's parameters.

    Raises:
        UserError: when a file cannot be read, or the files do not belong together.
    """
    truth, asked = read_ground_truth(ground_truth), open_queries(queries)
    if training is not None:
        asked = normalize_vectors(asked, open_queries(training))
    scores, _ = rank_vectors(asked, open_references(references), truth)
    given = {"queries": queries, "references": references, "ground_truth": ground_truth, "training": training}
    origin = describe_origin(**{name: digest_file(path) for name, path in given.items() if path is not None})
    text = json.dumps(scores.as_dict() | {"made_from": origin}, indent=1)
    print(text)
    if output is not None:
        write_text(output, text + "\n")
