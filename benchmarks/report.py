"""Time to write the report and the comparison of 1,000 queries, and their size.

    python benchmarks/report.py [--queries N] [--references N] [--images DIR] [--output DIR]

Vectors are random: half of the queries are copies, some near their reference, some far. Pictures are procedural, of 1,024 × 1,024
pixels, or those of --images; they are assigned to ids in turn, and each thumbnail is decoded separately. The limits are 30 s and
30 MB.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from PIL import Image
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import GroundTruth
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural.pictures import draw_picture
from image_copies.pipeline.steps.report import threshold
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.report.comparison_page import ComparisonInputs, Side, write_comparison
from image_copies.submissions.report.inputs import Distribution, ReportInputs
from image_copies.submissions.report.page import write_report
from image_copies.submissions.scoring.bootstrap import difference_interval, micro_average_precision_interval
from image_copies.submissions.scoring.metrics import RankedPairs, Scores, evaluate
from image_copies.submissions.scoring.query_scores import score_queries
from image_copies.submissions.vectors.files import Vectors

MAX_SECONDS, MAX_MEGABYTES, DIMENSIONS = 30, 30, 256
EDITS = ("crop", "blur", "overlay_text", "rotate", "meme_format", "severe_crop", "hflip", "collage")


def draw_vectors(queries: int, references: int, noise: float, seed: int) -> tuple[Vectors, Vectors]:
    """Draw unit vectors; in the first half, query i is reference i with noise of length 0 … `noise`. The others are unrelated."""
    rng = np.random.default_rng([1, references])
    stored = scale_to_unit_length(rng.standard_normal((references, DIMENSIONS)).astype(np.float32))
    rng = np.random.default_rng([2, seed])
    asked = scale_to_unit_length(rng.standard_normal((queries, DIMENSIONS)).astype(np.float32))
    near = queries // 2
    asked[:near] = scale_to_unit_length(stored[:near] + rng.uniform(0, noise, (near, 1)).astype(np.float32) * asked[:near])
    names = [f"Q{row:05d}" for row in range(queries)], [f"R{row:06d}" for row in range(references)]
    return Vectors(names[0], asked, np.zeros(queries, bool)), Vectors(names[1], stored, np.zeros(references, bool))


def assign_pictures(ids: list[str], paths: list[Path]) -> ImageSet:
    return ImageSet(ids, [paths[row % len(paths)] for row in range(len(ids))])


def write_pictures(folder: Path) -> list[Path]:
    folder.mkdir()
    for number in range(60):
        picture = draw_picture(np.random.default_rng([3, number]), 1024)
        Image.fromarray(picture).save(folder / f"{number:03d}.jpg", quality=90)
    return find_images(folder).paths


def make_learning_curve() -> pd.DataFrame:
    epochs = np.arange(60)
    return pd.DataFrame({"stage": epochs // 20 + 1, "loss": 20 / (1 + epochs % 20), "validation": epochs / 100})


def make_report_inputs(
    queries: Vectors, references: Vectors, truth: GroundTruth, folder: Path, paths: list[Path]
) -> tuple[ReportInputs, Scores]:
    scores, ranked = evaluate(queries, references, truth)
    interval = micro_average_precision_interval(ranked, truth)
    row = scores.as_dict() | {"submitted": False, "micro_average_precision_95": [interval.low, interval.high]}
    found = score_queries(queries, references, truth)
    titles = ("before normalisation", "after normalisation")
    inputs = ReportInputs(
        title="benchmark",
        variants=[row | {"name": f"model: {number}"} for number in range(12)],
        scores=scores.as_dict(),
        interval=interval,
        ranked=ranked,
        ground_truth=truth,
        queries=assign_pictures(queries.ids, paths),
        references=assign_pictures(references.ids, paths),
        edits_file=write_edits(folder / "edits.csv", queries.ids),
        recipe="seed: 0\n" * 100,
        code="benchmark",
        distributions=[Distribution(title, found, threshold(ranked)) for title in titles],
        curves={f"model {number}": make_learning_curve() for number in range(7)},
    )
    return inputs, scores


def write_edits(path: Path, ids: list[str]) -> Path:
    rng = np.random.default_rng(4)
    rows = [(name, " ".join(rng.choice(EDITS, rng.integers(1, 6), replace=False))) for name in ids]
    pd.DataFrame(rows, columns=["query_id", "edits"]).to_csv(path, index=False)
    return path


def make_comparison_inputs(inputs: ReportInputs, scores: Scores, other: RankedPairs, other_scores: Scores) -> ComparisonInputs:
    truth = inputs.ground_truth
    first = Side("other", other_scores, other, micro_average_precision_interval(other, truth))
    second = Side("this", scores, inputs.ranked, inputs.interval)
    gap = difference_interval(other, inputs.ranked, truth)
    return ComparisonInputs(first, second, gap, truth, inputs.queries, inputs.references, inputs.edits_file)


def measure(name: str, write: Callable[[], Path], table: Table) -> None:
    wall, processor = time.perf_counter(), time.process_time()
    page = write()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    files = [path for path in page.parent.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    verdict = "yes" if wall < MAX_SECONDS and size < MAX_MEGABYTES else "no"
    table.add_row(name, f"{wall:.1f}", f"{processor:.1f}", f"{size:.1f}", str(len(files) - 1), verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--references", type=int, default=10_000)
    parser.add_argument("--images", type=Path, metavar="DIR", help="pictures to show; without it procedural ones")
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep the pages here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.output or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        paths = find_images(options.images, naming="file").paths if options.images else write_pictures(Path(name) / "pictures")
        queries, references = draw_vectors(options.queries, options.references, 4.5, seed=0)
        half = range(options.queries // 2)
        truth = GroundTruth(queries.ids, frozenset((queries.ids[row], references.ids[row]) for row in half))
        inputs, scores = make_report_inputs(queries, references, truth, folder, paths)
        other_scores, other = evaluate(*draw_vectors(options.queries, options.references, 5.5, seed=1), truth)
        table = Table(title=f"{options.queries} queries, {options.references} references")
        for column in ("page", "s", "processor s", "MB", "files beside it", f"under {MAX_SECONDS} s and {MAX_MEGABYTES} MB"):
            table.add_column(column, justify="left" if column == "page" else "right")
        measure("report", lambda: write_report(inputs, folder / "report"), table)
        compared = make_comparison_inputs(inputs, scores, other, other_scores)
        measure("comparison", lambda: write_comparison(compared, folder / "comparison"), table)
        Console().print(table)


if __name__ == "__main__":
    main()
