"""Step 05 reads references in blocks."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.steps.submit import submit
from image_copies.submissions.formats import submission
from image_copies.submissions.formats.submission import open_submission
from image_copies.submissions.search import exact
from image_copies.submissions.vectors import files
from image_copies.submissions.vectors.files import write_vectors

RECIPE = Path(__file__).parents[3] / "recipes" / "sample.yaml"
DIMENSIONS = 256


def make_run(folder: Path, count: int) -> Run:
    run = Run(folder, read_recipe(RECIPE), folder)
    for path, prefix, size in ((run.paths.normalized_queries, "Q", 30), (run.paths.projected("reference"), "R", count)):
        values = np.random.default_rng(size).standard_normal((size, DIMENSIONS)).astype(np.float32)
        write_vectors(path, [f"{prefix}{row:06d}" for row in range(size)], [values])
    return run


def test_memory_does_not_grow_with_the_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (files, submission):
        monkeypatch.setattr(module, "ROWS_PER_BLOCK", 500)
    monkeypatch.setattr(exact, "REFERENCES_PER_SHARD", 500)
    peaks = []
    for name, count in (("first", 600), ("few", 2000), ("many", 12_000)):  # the first loads the libraries
        run = make_run(tmp_path / name, count)
        tracemalloc.start()
        submit(run)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(open_submission(run.paths.submission)[1]) == count
    assert peaks[2] - peaks[1] < 0.2 * 10_000 * DIMENSIONS * 4
