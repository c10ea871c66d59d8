"""Drip training on the tiny set: minutes of training, and the µAP of the submission."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gpu_parts import Row

from models.training.curve import read_rows

RECIPE = Path(__file__).with_name("gpu_tiny.yaml")
MODEL, MOST_MINUTES, LEAST = "v2b0", 20, 0.85
TOP = Path(__file__).parents[1]


def tiny(data: Path, run: Path, limit: float) -> Iterator[Row]:
    """Train for at most `limit` seconds of this call; with the training finished, embed, submit and score.

    The state of a killed training is kept: the same call goes on.
    """
    _step("00_augment.py", "--data", str(data), "--recipe", str(RECIPE), "--run", str(run))
    try:
        _step("01_train.py", "--run", str(run), seconds=limit)
    except subprocess.TimeoutExpired:
        rows = read_rows(run / "models" / MODEL)
        yield Row("training", f"killed after {limit:.0f} s at {len(rows)} epochs: give the same command again")
        return
    for step in ("02_embed.py", "03_ensemble.py", "04_normalize.py", "05_submit.py", "06_score.py"):
        _step(step, "--run", str(run))
    last = {row["stage"]: float(row["seconds"]) for row in read_rows(run / "models" / MODEL)}
    minutes = sum(last.values()) / 60
    yield Row("minutes of training", f"{minutes:.1f}", f"at most {MOST_MINUTES}", minutes <= MOST_MINUTES)
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    score = float(scores["micro_average_precision"])
    yield Row("µAP of the submission", f"{score:.3f}", f"at least {LEAST}", score >= LEAST)


def _step(script: str, *options: str, seconds: float | None = None) -> None:
    """One numbered step as its own process, killed after `seconds`."""
    subprocess.run([sys.executable, str(TOP / "pipeline" / script), *options], check=True, timeout=seconds, cwd=TOP)
