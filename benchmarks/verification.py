"""Gain and cost of `match.py --verify` and `--views`.

    python benchmarks/verification.py DATA --checkpoint FILE      a data set in the ISC2021 layout with its ground truth
    python benchmarks/verification.py DATA --run DIR

µAP and recall at 90 % precision of each query's K nearest references, as in the matching track: ranked by distance alone, and
with the pairs first whose features agree; and how many false alarms the queries that copy nothing raise by their scores, at
stated rates. Pairs per second include reading every picture and computing its features once.
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.layout import open_isc_folder
from image_copies.data.process import usable_cores
from image_copies.matching.calibration import make_rule
from image_copies.matching.candidates import choose_candidates
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.filling import add_pictures
from image_copies.matching.index.store import open_store
from image_copies.matching.matches import Match, rank_by_evidence
from image_copies.matching.search import Search
from image_copies.matching.verification.pairs import Candidate, verify_pairs
from image_copies.pipeline.tools.run_extractor import open_extractor

CONSOLE = Console(width=120)
RATES = 0.001, 0.01, 0.1  # stated false alarms per query


def find_nearest_pairs(extractor: Extractor, data: Path, nearest: int, views: bool) -> list[Match]:
    """Return each query's nearest references, best first; with views, those of its views where it is unsure."""
    layout, rule = open_isc_folder(data), make_rule(extractor, None, RATES[0], nearest)
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder), extractor.identity, extractor.dimensions) as store:
        add_pictures(store, extractor, layout.reference.paths)
        search = Search(store, extractor, rule, candidates=nearest, views=views)
        return search.queries(layout.query.paths).matches.pairs


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
    alone, viewed = (find_nearest_pairs(extractor, options.data, options.nearest, views) for views in (False, True))
    start = time.perf_counter()
    candidates = partial(choose_candidates, tail=extractor.calibrate(), references=len(open_isc_folder(options.data).reference))
    verified = verify(alone, candidates(alone))
    seconds = time.perf_counter() - start
    rankings = {
        "descriptor alone": alone,
        "--views": viewed,
        "--verify": verified,
        "--verify --views": verify(viewed, candidates(viewed)),
    }
    unrelated = {path.stem for path in open_isc_folder(options.data).query.paths} - {query for query, _ in truth.pairs}
    table = Table("ranking", "µAP", "recall at P90", "confirmed, right", title=f"the {options.nearest} nearest of every query")
    for rate in RATES:
        table.add_column(f"alarms of {rate * len(unrelated):g}")
    for name, pairs in rankings.items():
        confirmed = [match for match in pairs if match.evidence]
        right = sum((match.query.stem, match.reference.stem) in truth.pairs for match in confirmed)
        shown = f"{len(confirmed)}, {right}" if confirmed else ""
        alarms = (str(sum(m.query.stem in unrelated and (m.expected_false_alarms or 0) <= rate for m in pairs)) for rate in RATES)
        table.add_row(name, *(f"{value:.3f}" for value in compute_scores(pairs, truth)), shown, *alarms)
    CONSOLE.print(table)
    looked_at = sum(pair is not None for pair in candidates(alone))
    CONSOLE.print(f"{looked_at} pairs, {looked_at / seconds:.1f}/s verified on {usable_cores()} cores")


def verify(pairs: list[Match], candidates: list[Candidate | None]) -> list[Match]:
    """Return the pairs that local features confirm before the others."""
    return rank_by_evidence(pairs, verify_pairs(candidates))


if __name__ == "__main__":
    main()
