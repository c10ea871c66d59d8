"""Gain and cost of `match.py --verify` and `--views`.

    python benchmarks/verification.py DATA …                        what ships; joins verification.json
    python benchmarks/verification.py DATA --run DIR --results FILE.json
    python benchmarks/verification.py --docs                        writes the table of matching.md

DATA: data sets in the ISC2021 layout with their ground truth.
µAP and recall at 90 % precision of each query's K nearest references, as in the matching track: ranked by distance alone, and
with the pairs first whose features agree; and how many false alarms the queries that copy nothing raise by their scores, at
stated rates.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from measurements import Figures, Measurements
from page_tables import make_table, write_tables

from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.layout import GROUND_TRUTH, open_isc_folder
from image_copies.matching.extractor import Extractor, make_rule
from image_copies.matching.index.filling import add_pictures
from image_copies.matching.index.search import open_search
from image_copies.matching.index.store import open_store
from image_copies.matching.matches import Match, Rule, rank_by_evidence
from image_copies.matching.pairs import PairJudge
from image_copies.matching.search import Search
from image_copies.matching.threshold import Tail
from image_copies.matching.verification.features import Change
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.tools.networks import open_extractor

RESULTS = Path(__file__).with_name("verification.json")
COMMAND = "benchmarks/verification.py --docs"
RATES = 0.001, 0.01, 0.1  # stated false alarms per query
SHOWN_RATE = 0.01  # of the table
RANKINGS = "descriptor alone", "with `--views`", "with `--verify`", "with `--verify --views`"


def find_nearest_pairs(extractor: Extractor, data: Path, nearest: int, views: bool) -> tuple[list[Match], Tail | None]:
    """Return each query's nearest references, best first, with views those of its views where it is unsure; and the tail."""
    layout, rule = open_isc_folder(data), replace(make_rule(extractor, rate=RATES[0]), most=nearest)
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder), extractor.identity, extractor.dimensions) as store:
        add_pictures(store, extractor, layout.reference.paths)
        search = Search(store, open_search(store), extractor, rule, candidates=nearest, views=views)
        return search.queries(layout.query.paths).pairs, search.fitted.tail


def compute_scores(pairs: list[Match], truth: GroundTruth) -> tuple[float, float]:
    """Return µAP and recall at 90 % precision of pairs in their order."""
    true = np.array([(match.query.stem, match.reference.stem) in truth.pairs for match in pairs])
    precision = np.cumsum(true) / np.arange(1, len(true) + 1)
    recall = np.cumsum(true) / len(truth.pairs)
    return float((precision * true).sum() / len(truth.pairs)), float(recall[precision >= 0.9].max(initial=0))


def measure(data: Path, extractor: Extractor, nearest: int, _seed: int) -> Figures:
    """Return µAP, recall, confirmed pairs and false alarms of each ranking, and how many queries copy nothing."""
    truth, layout = read_ground_truth(data / GROUND_TRUTH), open_isc_folder(data)
    (alone, tail), (viewed, _) = (find_nearest_pairs(extractor, data, nearest, views) for views in (False, True))
    rule = Rule(None, tail, 0.001, nearest)
    verified, both = (verify(pairs, rule.choose_changes(pairs, len(layout.reference))) for pairs in (alone, viewed))
    unrelated = {path.stem for path in layout.query.paths} - {query for query, _ in truth.pairs}
    figures = {"queries that copy nothing": float(len(unrelated))}
    for name, pairs in zip(RANKINGS, (alone, viewed, verified, both), strict=True):
        confirmed = [match for match in pairs if match.evidence]
        right = sum((match.query.stem, match.reference.stem) in truth.pairs for match in confirmed)
        scores = dict(zip(("µAP", "R@P90"), compute_scores(pairs, truth), strict=True))
        figures |= {f"{name}: {figure}": value for figure, value in scores.items()}
        figures |= {f"{name}: confirmed": float(len(confirmed)), f"{name}: right": float(right)}
        for rate in RATES:
            alarms = sum(match.query.stem in unrelated and (match.expected_false_alarms or 0) <= rate for match in pairs)
            figures[f"{name}: alarms at {rate:g}"] = float(alarms)
    return figures


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of matching.md: for each ranking its scores, confirmed pairs and false alarms, by set."""
    sets = {str(entry["about"]["set"]): entry["figures"] for entry in store.measurements}
    heads, rows = ["ranking"], [[name] for name in RANKINGS]
    for set_name, figures in sets.items():
        stated = SHOWN_RATE * figures["queries that copy nothing"]
        heads += [f"{set_name}: µAP, R@P90", "confirmed, right", f"false alarms, {stated:g} stated"]
        for row in rows:
            name = row[0]
            scores = ", ".join(f"{figures[f'{name}: {figure}']:.3f}" for figure in ("µAP", "R@P90"))
            confirmed, right, alarms = (
                f"{figures[f'{name}: {figure}']:.0f}" for figure in ("confirmed", "right", f"alarms at {SHOWN_RATE:g}")
            )
            row += [scores, f"{confirmed}, {right}" if confirmed != "0" else "", alarms]
    return {"matching.md": make_table(heads, rows)}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="*", metavar="DATA")
    parser.add_argument("--checkpoint", type=Path, default=SHIPPED)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--nearest", type=int, default=10, metavar="K", help="references per query (default: 10)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE.json")
    parser.add_argument("--docs", action="store_true", help="also write the table of matching.md")
    options = parser.parse_args()
    store = Measurements.open(options.results)
    for data in options.data:
        extractor = open_extractor(options.run, None, None if options.run else options.checkpoint)
        about = {"set": data.resolve().name, "nearest": options.nearest}
        store.measure("rankings", about, [0], partial(measure, data, extractor, options.nearest))
    tables = make_tables(store)
    print(*tables.values())
    if options.docs:
        write_tables(tables, COMMAND)


def verify(pairs: list[Match], changes: Sequence[Sequence[Change]]) -> list[Match]:
    """Return the pairs that local features confirm before the others."""
    return rank_by_evidence(PairJudge().verify_all(pairs, changes))


if __name__ == "__main__":
    main()
