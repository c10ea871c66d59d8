"""Whether the calibrated threshold keeps its promise: stated and measured false alarms of runs with a ground truth.

    python benchmarks/false_alarms.py RUN [RUN …]

Measured on the run's queries that copy nothing, of which some match all the same.
"""

import argparse
from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import read_ground_truth
from image_copies.pipeline.run.run import open_existing_run
from image_copies.pipeline.tools.run_extractor import calibrate_on_run, run_normalizer
from image_copies.submissions.vectors.files import Vectors, read_vectors

FALSE_ALARM_RATES = (0.001, 0.003, 0.01, 0.03, 0.1)


def print_false_alarms(folders: list[Path]) -> None:
    """Print stated and measured false alarms of each run."""
    table = Table("run", "stated", "queries that copy nothing", "of them matched", "measured", "÷ stated", "copies found")
    for folder in folders:
        run = open_existing_run(folder, None)
        tail = calibrate_on_run(run, run_normalizer(run))
        truth = read_ground_truth(run.data / "public_ground_truth.csv")
        queries, references = read_vectors(folder / "normalized" / "query.h5"), read_vectors(folder / "ensemble" / "reference.h5")
        nearest, true = distances(queries, references, truth.pairs)
        copies = {query for query, _ in truth.pairs}
        alone = nearest[[query not in copies for query in queries.ids]]
        for rate in FALSE_ALARM_RATES:
            limit = tail.threshold(rate, int((~references.unreadable).sum()))
            matched = int((alone <= limit).sum())
            measured = matched / len(alone)
            found = f"{int((true <= limit).sum())} of {len(true)}"
            row = str(folder), f"{rate:g}", str(len(alone)), str(matched), f"{measured:.4f}", f"{measured / rate:.2f}", found
            table.add_row(*row, end_section=rate == FALSE_ALARM_RATES[-1])
    Console(width=120).print(table)


def distances(
    queries: Vectors, references: Vectors, pairs: Collection[tuple[str, str]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the squared distances of every query to its nearest reference [n], and those of the true pairs."""
    readable = references.rows([image for image, bad in zip(references.ids, references.unreadable, strict=True) if not bad])
    products = queries.vectors.astype(np.float64) @ readable.vectors.astype(np.float64).T
    squares = (queries.vectors.astype(np.float64) ** 2).sum(axis=1)[:, None] + 1 - 2 * products
    row = {image_id: place for place, image_id in enumerate(queries.ids)}
    column = {image_id: place for place, image_id in enumerate(readable.ids)}
    return squares.min(axis=1), np.array([squares[row[query], column[reference]] for query, reference in pairs])


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    print_false_alarms(options.parse_args().runs)
