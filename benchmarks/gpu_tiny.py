"""Drip training on the tiny set: its minutes, and the µAP of the submission."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gpu_row import Row
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.layout import open_isc_folder
from image_copies.models.training.curve import read_rows
from image_copies.submissions.formats.submission import open_submission
from image_copies.submissions.scoring.metrics import evaluate

MAX_MINUTES, MIN_SCORE = 20, 0.85
TOP = Path(__file__).parents[1]


def measure_tiny(data: Path, run: Path, recipe: Path, limit: float, output: Path) -> Iterator[Row]:
    """Train for at most `limit` seconds of this call; with the training finished, embed, submit and score.

    A training that is stopped keeps its state; the same call continues it. Either way its curve and the weights of the last
    finished stage, in half precision, are left in `output`.
    """
    _step("00_augment.py", "--data", str(data), "--recipe", str(recipe), "--run", str(run))
    try:
        _step("01_train.py", "--run", str(run), seconds=limit)
        finished = True
    except subprocess.TimeoutExpired:
        finished = False
    (folder,) = (run / "models").iterdir()
    rows = read_rows(folder)
    scored = [f"stage {row['stage']}: {row['validation']}" for row in rows if row.get("validation")]
    done = f"{len(rows)} epochs, {_copy_results(folder, output)}"
    yield Row("µAP on the synthetic queries", f"{'; '.join(scored) or 'none yet'}; {done}")
    if not finished:
        yield Row("training", f"killed after {limit:.0f} s: give the same command again")
        return
    minutes = sum({row["stage"]: float(row["seconds"]) for row in rows}.values()) / 60
    yield Row("minutes of training", f"{minutes:.1f}", f"at most {MAX_MINUTES}", minutes <= MAX_MINUTES)
    for step in ("02_embed.py", "03_ensemble.py", "04_normalize.py", "05_submit.py"):  # step 06 draws a report, too
        _step(step, "--run", str(run))
    found = open_isc_folder(data)
    assert found.ground_truth is not None
    score = evaluate(*open_submission(run / "submission.h5"), read_ground_truth(found.ground_truth))[0].micro_average_precision
    yield Row("µAP of the submission", f"{score:.3f}", f"at least {MIN_SCORE}", score >= MIN_SCORE)


def _copy_results(folder: Path, output: Path) -> str:
    """Copy the curve and the last finished stage's weights, in half precision; describe them."""
    shutil.copy(folder / "curve.csv", output)
    stages = sorted(folder.glob("stage-*.safetensors"))
    if not stages:
        return "no stage finished"
    copied = output / "weights.safetensors"
    weights = {name: value.half() if value.is_floating_point() else value for name, value in load_file(stages[-1]).items()}
    with safe_open(stages[-1], framework="pt") as file:
        save_file(weights, copied, file.metadata())
    return f"{stages[-1].stem} in {copied.stat().st_size / 2**20:.1f} MiB"


def _step(script: str, *options: str, seconds: float | None = None) -> None:
    """Run one numbered step as a separate process, killed after `seconds`."""
    subprocess.run([sys.executable, str(TOP / "pipeline" / script), *options], check=True, timeout=seconds, cwd=TOP)
