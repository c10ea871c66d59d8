"""What `match.py A.jpg B.jpg` calls copies, of pairs of different pictures and of edited copies.

    python benchmarks/comparing.py [DATA] [--step 3]      DATA: a data set in the ISC2021 layout; else photos of COPYSETS

Of each STEP-th reference and its nearest other one, none should be a copy; of the queries that have an original, all should be. A
copy is confirmed if features or pixels say so, not the score alone (`Judgement.confirmed`).
"""

import argparse
import os
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.layout import GROUND_TRUTH, open_isc_folder
from image_copies.matching.calibration import make_rule
from image_copies.matching.commands.comparing import Verdict, compare
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.models.shipped import SHIPPED

FALSE_ALARMS = 0.001  # per query, as by default


def find_nearest_others(extractor: Extractor, data: Path, step: int) -> list[tuple[Path, Path]]:
    """Return each step-th reference of a data set and the other one whose vector is nearest."""
    references = open_isc_folder(data).reference
    vectors = extractor.extract_all(references).vectors.astype(np.float64)
    near = 2 - 2 * extractor.normalize(vectors.astype(np.float32)).astype(np.float64) @ vectors.T
    near = np.minimum(near, near.T)
    np.fill_diagonal(near, np.inf)
    return [(references.paths[row], references.paths[near[row].argmin()]) for row in range(0, len(near), step)]


def find_copies(data: Path) -> list[tuple[Path, Path]]:
    """Return the queries of a data set that are copies, each with its original."""
    layout = open_isc_folder(data)
    known = {path.stem: path for path in [*layout.query.paths, *layout.reference.paths]}
    return [(known[query], known[reference]) for query, reference in sorted(read_ground_truth(data / GROUND_TRUTH).pairs)]


def describe(verdict: Verdict) -> str:
    """Return what a verdict says: the class, and whether only the score speaks for it."""
    judgement = verdict.judgement
    return "" if judgement is None else judgement.kind + ("" if judgement.confirmed else ", not confirmed")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=Path(os.environ.get("COPYSETS", "")) / "photos")
    parser.add_argument("--step", type=int, default=3, metavar="N", help="every N-th reference (default: 3)")
    options = parser.parse_args()
    extractor = checkpoint_extractor(SHIPPED)
    rule = make_rule(extractor, None, FALSE_ALARMS, 1)
    table = Table("pairs", "of them called copies", "by class")
    for name, pairs in (
        ("a reference and its nearest other one", find_nearest_others(extractor, options.data, options.step)),
        ("a copy and its original", find_copies(options.data)),
    ):
        verdicts = [compare(extractor, rule, first, second, verified=True) for first, second in pairs]
        classes = "; ".join(f"{count} {said}" for said, count in Counter(map(describe, verdicts)).most_common())
        table.add_row(name, f"{sum(verdict.copy for verdict in verdicts)} of {len(pairs)}", classes)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
