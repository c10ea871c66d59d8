"""Gain and cost of `match.py --verify`.

    python benchmarks/verification.py DATA --checkpoint FILE      a data set in the ISC2021 layout with its ground truth
    python benchmarks/verification.py DATA --run DIR

µAP and recall at 90 % precision of each query's K nearest references, as in the matching track: ranked by distance alone, and
with the pairs first whose features agree. Pairs per second include reading every picture and computing its features once.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.layout import open_isc_folder
from image_copies.matching.extractor import Extractor
from image_copies.matching.matches import Match, rank_by_evidence
from image_copies.matching.verification.pairs import THREADS, verify_pairs
from image_copies.pipeline.tools.run_extractor import open_extractor
from image_copies.submissions.search.exact import compute_exact_distances

CONSOLE = Console(width=120)


def find_nearest_pairs(extractor: Extractor, data: Path, nearest: int) -> list[Match]:
    """Return each query's nearest references, best first."""
    layout = open_isc_folder(data)
    queries, references = extractor.extract_all(layout.query), extractor.extract_all(layout.reference)
    searched = extractor.normalize(queries.vectors)
    rows = np.argsort(-(searched @ references.vectors.T), axis=1)[:, :nearest]
    columns = np.repeat(np.arange(len(queries)), nearest)
    distances = compute_exact_distances(searched, references.vectors, columns, rows.ravel()).tolist()
    pairs = zip(columns.tolist(), rows.ravel().tolist(), distances, strict=True)
    found = [Match(layout.query.paths[q], layout.reference.paths[r], -distance, None) for q, r, distance in pairs]
    return sorted(found, key=lambda match: -match.score)


def compute_scores(pairs: list[Match], truth: GroundTruth) -> tuple[float, float]:
    """Return µAP and recall at 90 % precision of pairs in their order."""
    true = np.array([(match.query.stem, match.reference.stem) in truth.pairs for match in pairs])
    precision = np.cumsum(true) / np.arange(1, len(true) + 1)
    recall = np.cumsum(true) / len(truth.pairs)
    return float((precision * true).sum() / len(truth.pairs)), float(recall[precision >= 0.9].max(initial=0))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--nearest", type=int, default=10, metavar="K", help="references per query (default: 10)")
    options = parser.parse_args()
    truth = read_ground_truth(options.data / "public_ground_truth.csv")
    extractor = open_extractor(options.run, None, options.checkpoint, None)
    alone = find_nearest_pairs(extractor, options.data, options.nearest)
    start = time.perf_counter()
    verified = rank_by_evidence(alone, verify_pairs([(match.query, match.reference) for match in alone]))
    seconds = time.perf_counter() - start
    confirmed = [match for match in verified if match.evidence]
    right = sum((match.query.stem, match.reference.stem) in truth.pairs for match in confirmed)
    table = Table("ranking", "µAP", "recall at P90", title=f"{len(alone):,} pairs, the {options.nearest} nearest of every query")
    for name, pairs in (("descriptor alone", alone), ("with --verify", verified)):
        table.add_row(name, *(f"{value:.3f}" for value in compute_scores(pairs, truth)))
    CONSOLE.print(table)
    CONSOLE.print(
        f"{len(confirmed)} pairs confirmed, {right} of them right; {len(alone) / seconds:.1f} pairs/s on {THREADS} threads"
    )


if __name__ == "__main__":
    main()
