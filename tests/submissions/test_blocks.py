"""References are read in blocks: the results are those of references in memory, and memory does not grow with them."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from image_copies.data.ground_truth import GroundTruth
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.steps.submit import submit
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.formats.matching_track import write_matches
from image_copies.submissions.formats.submission import describe_oddities, open_submission, write_submission
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.search import neighbours
from image_copies.submissions.vectors import files
from image_copies.submissions.vectors.files import Vectors, VectorSet, open_vectors, read_vectors, write_vectors

RECIPE = Path(__file__).parents[2] / "recipes" / "sample.yaml"
QUERIES, DIMENSIONS, BLOCK = 40, 256, 250
TRUTH = GroundTruth([f"Q{row}" for row in range(30)], frozenset((f"Q{row}", f"R{row:06d}") for row in range(20)))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ROWS_PER_BLOCK", BLOCK)
    monkeypatch.setattr(neighbours, "REFERENCES_PER_SHARD", BLOCK)


def draw(folder: Path, count: int) -> tuple[Vectors, Path]:
    """Queries in memory, of which 20 are near to references, and a file of references.

    Some references are unreadable, equal or zero, and their ids are not sorted.
    """
    rng, path = np.random.default_rng(count), folder / f"{count}.h5"
    values = scale_to_unit_length(rng.standard_normal((count, DIMENSIONS)).astype(np.float32))
    values[-30:-20] = values[-1]
    unreadable = np.arange(count) % 97 == 90
    values[unreadable] = 0
    ids = [f"R{row:06d}" for row in range(count)]
    asked = rng.standard_normal((QUERIES, DIMENSIONS)).astype(np.float32)
    asked[:20] = values[:20] + 0.05 * asked[:20]
    write_vectors(path, ids[::-1], [values[::-1]], unreadable[::-1])
    return Vectors([f"Q{row}" for row in range(QUERIES)], scale_to_unit_length(asked), np.arange(QUERIES) == 7), path


def use(folder: Path, queries: Vectors, references: VectorSet) -> list[object]:
    """All that steps 05 and 06 do with references."""
    folder.mkdir()
    write_submission(folder / "submission.h5", queries, references)
    submitted = open_submission(folder / "submission.h5")
    write_matches(folder / "matches.csv", *submitted)
    scores, ranked = evaluate(queries, references, TRUTH)
    again, _ = evaluate(*submitted, TRUTH)
    return [scores, ranked.distances.tolist(), again, describe_oddities(*submitted)]


def test_references_of_a_file_give_what_those_in_memory_do(tmp_path: Path) -> None:
    queries, path = draw(tmp_path, 2300)
    stored, held = use(tmp_path / "stored", queries, open_vectors(path)), use(tmp_path / "held", queries, read_vectors(path))
    assert stored == held
    for name in ("submission.h5", "matches.csv"):
        assert (tmp_path / "stored" / name).read_bytes() == (tmp_path / "held" / name).read_bytes()


def measure_peak(folder: Path, queries: Vectors, path: Path) -> int:
    """Of that, and of step 05 itself."""
    run = Run(folder / "run", read_recipe(RECIPE), folder)
    write_vectors(run.paths.normalized_queries, queries.ids, [queries.vectors])
    run.paths.projected("reference").parent.mkdir()
    run.paths.projected("reference").symlink_to(path)
    tracemalloc.start()
    use(folder / "used", queries, open_vectors(path))
    submit(run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_references(tmp_path: Path) -> None:
    """Ids and row numbers do; they take a tenth of what the vectors would."""
    few, many = (draw(tmp_path, count) for count in (1000, 6000))
    _, *peaks = (measure_peak(tmp_path / name, *part) for name, part in (("loads", few), ("few", few), ("many", many)))
    assert peaks[1] - peaks[0] < 0.2 * 5000 * DIMENSIONS * 4
