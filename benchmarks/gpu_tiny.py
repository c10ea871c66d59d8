"""Drip training on the tiny set: its minutes, and the µAP of the submission."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gpu_row import Row

from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.layout import open_isc_folder
from image_copies.models.training.curve import read_rows
from image_copies.submissions.formats.submission import open_submission
from image_copies.submissions.scoring.metrics import evaluate

RECIPE = Path(__file__).with_name("gpu_tiny.yaml")
MODEL, MAX_MINUTES, MIN_SCORE = "v2b0", 20, 0.85
TOP = Path(__file__).parents[1]


def measure_tiny(data: Path, run: Path, limit: float) -> Iterator[Row]:
    """Train for at most `limit` seconds of this call; with the training finished, embed, submit and score.

    A training that is stopped keeps its state; the same call continues it.
    """
    _step("00_augment.py", "--data", str(data), "--recipe", str(RECIPE), "--run", str(run))
    try:
        _step("01_train.py", "--run", str(run), seconds=limit)
    except subprocess.TimeoutExpired:
        rows = read_rows(run / "models" / MODEL)
        yield Row("training", f"killed after {limit:.0f} s at {len(rows)} epochs: give the same command again")
        return
    for step in ("02_embed.py", "03_ensemble.py", "04_normalize.py", "05_submit.py"):  # step 06 draws a report, too
        _step(step, "--run", str(run))
    last = {row["stage"]: float(row["seconds"]) for row in read_rows(run / "models" / MODEL)}
    minutes = sum(last.values()) / 60
    yield Row("minutes of training", f"{minutes:.1f}", f"at most {MAX_MINUTES}", minutes <= MAX_MINUTES)
    found = open_isc_folder(data)
    assert found.ground_truth is not None
    score = evaluate(*open_submission(run / "submission.h5"), read_ground_truth(found.ground_truth))[0].micro_average_precision
    yield Row("µAP of the submission", f"{score:.3f}", f"at least {MIN_SCORE}", score >= MIN_SCORE)


def _step(script: str, *options: str, seconds: float | None = None) -> None:
    """Run one numbered step as a separate process, killed after `seconds`."""
    subprocess.run([sys.executable, str(TOP / "pipeline" / script), *options], check=True, timeout=seconds, cwd=TOP)
