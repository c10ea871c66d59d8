"""Drip ArcFace beside InfoNCE, without and with MixUp, from nothing, at equal steps, each at the best of the same learning rates.

    COPYSETS=DIR python studies/papers/objectives.py [--data FOLDER] [--seeds 3] [--results FILE.json]

Setting and data are those of claim 10 (claims.py). InfoNCE has all classes at once, two views of 48 images in a batch and
temperature 0.05; "MixUp" also mixes half of the batches. For each objective the rate is chosen on
seed 0; the others are compared run by run, by the 95 % interval of the mean difference.
"""

import argparse
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # whose files of measurements are used here too
from claim_rows.copies import CopyBench, measure_training, train
from claim_rows.row import Difference
from measurements import Figures, Measurements

BACKBONE, STEPS = "test_efficientnet", 400
RATES = (5e-4, 1e-3, 2e-3, 4e-3)
INFONCE: dict[str, Any] = {
    "objective": {"kind": "infonce"},
    "sampling": {"kind": "repeated", "copies": 2},
}
MIXED: dict[str, Any] = INFONCE | {"mix": {"kind": "mixup"}}
OBJECTIVES: dict[str, dict[str, Any]] = {"drip ArcFace": {}, "InfoNCE": INFONCE, "InfoNCE and MixUp": MIXED}


def main() -> None:
    """Choose the rates, measure the other seeds, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder in the ISC2021 layout (default: tiny.zip of COPYSETS)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each objective at its rate (default 3)")
    parser.add_argument("--results", type=Path, default=Path("runs/objectives.json"), help="results file (default %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.data is None:
            with zipfile.ZipFile(Path(os.environ["COPYSETS"]) / "tiny.zip") as archive:
                archive.extractall(Path(folder) / "tiny")
        bench = CopyBench(Path(folder), options.data or Path(folder) / "tiny", STEPS, options.seeds)
        compare(bench, Measurements.open(options.results))


def compare(bench: CopyBench, store: Measurements) -> None:
    """Print each objective's rate and figures, and by how much drip ArcFace is ahead."""
    runs = dict[str, list[float]]()
    for name in OBJECTIVES:
        tried = {rate: measure(bench, store, name, rate, [0])[0] for rate in RATES}
        best = max(tried, key=lambda rate: tried[rate])
        runs[name] = measure(bench, store, name, best, range(1, bench.seeds + 1))
        chosen = ", ".join(f"{rate:g}: {score:.3f}" for rate, score in tried.items())
        print(f"{name}: {np.mean(runs[name]):.3f} ± {np.std(runs[name], ddof=1):.3f} at rate {best:g} ({chosen})", flush=True)
    for name in list(OBJECTIVES)[1:]:
        print(f"drip ArcFace − {name}: {Difference.between(runs['drip ArcFace'], runs[name]).as_text()}")


def measure(bench: CopyBench, store: Measurements, name: str, rate: float, seeds: Any) -> list[float]:
    """Return the µAP of each seed."""
    about = {"data": [bench.data.root.name, len(bench.data.training.ids)], "steps": bench.steps, "rate": rate} | OBJECTIVES[name]

    def run(seed: int) -> Figures:
        path = train(bench, "drip", seed, BACKBONE, not OBJECTIVES[name], rate, **OBJECTIVES[name])
        return {"µAP": measure_training(bench, path)}

    return [figures["µAP"] for figures in store.measure(name, about, seeds, run)]


if __name__ == "__main__":
    main()
