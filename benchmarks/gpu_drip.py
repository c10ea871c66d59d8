"""Part of benchmarks/gpu.py: a descriptor learnt by drip training in minutes, and the state in which a call leaves it."""

import csv
import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from gpu_steps import Row

TOP = Path(__file__).parents[1]
PART_BYTES = 15 * 2**20  # of the state's parts, each a file that a machine lets out
PART = "state.tar."
LEFT_OUT = ("cache", "queries", "manifests", "tensorboard")  # of a run: made again, or not needed


def measure_drip(data: Path, run: Path, recipe: Path, limit: float, output: Path, carried: Path | None) -> Iterator[Row]:
    """Train for at most `limit` seconds of this call, and leave the curve and the whole state in `output`.

    A training that is stopped goes on with the next call: from the run where that is left, or from the parts of its state in the
    folder `carried`.
    """
    folder = _unpack(data, run.with_name(f"{run.name}-data")) if data.suffix == ".tar" else data
    parts = sorted(carried.glob(f"{PART}*")) if carried else []
    if parts and not (run / "models").is_dir():
        _restore(parts, run)
    _step("00_augment.py", "--data", str(folder), "--recipe", str(recipe), "--run", str(run))
    try:
        _step("01_train.py", "--run", str(run), seconds=limit)
        finished = True
    except subprocess.TimeoutExpired:
        finished = False
    for curve in sorted(run.glob("models/*/curve.csv")):
        shutil.copy(curve, output / f"{curve.parent.name}.csv")
        rows = list(csv.DictReader(curve.open(encoding="utf-8")))
        scored = [f"stage {row['stage']}: {row['validation']}" for row in rows if row["validation"]]
        last = f", the last at {float(rows[-1]['images_per_second']):,.0f} images/s" if rows else ""
        figure = f"{'; '.join(scored) or 'none yet'}; {len(rows)} epochs{last}"
        yield Row(f"{curve.parent.name}, µAP on the synthetic queries", figure)
    done = "finished" if finished else f"killed after {limit:.0f} s: give the same command again"
    yield Row("training", f"{done}; its state: {_save(run, output)} parts")


def _unpack(archive: Path, folder: Path) -> Path:
    if not folder.is_dir():
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
    return folder


def _save(run: Path, output: Path) -> int:
    """Write a run's recipe, checkpoints and training states as parts of a tar; return how many."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.add(run, ".", filter=lambda member: None if Path(member.name).name in LEFT_OUT else member)
    content = written.getvalue()
    starts = range(0, len(content), PART_BYTES)
    for number, start in enumerate(starts):
        (output / f"{PART}{number}").write_bytes(content[start : start + PART_BYTES])
    return len(starts)


def _restore(parts: list[Path], run: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as archive:
        archive.extractall(run, filter="data")


def _step(script: str, *options: str, seconds: float | None = None) -> None:
    """Run one numbered step as a separate process, killed after `seconds`."""
    subprocess.run([sys.executable, str(TOP / "pipeline" / script), *options], check=True, timeout=seconds, cwd=TOP)
