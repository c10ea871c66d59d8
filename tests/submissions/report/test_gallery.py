"""Which pairs the report shows, on a ranking written by hand."""

import numpy as np

from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.report.gallery import Card, draw_false_alarms, draw_found_copies, draw_missed_copies
from image_copies.submissions.scoring.metrics import QueryScores, RankedPairs

TRUTH = GroundTruth(["Q1", "Q2", "Q3", "Q4", "Q5"], frozenset({("Q1", "R1"), ("Q2", "R2"), ("Q3", "R3"), ("Q4", "R4")}))
PAIRS = [("Q1", "R1", 0.1, True), ("Q5", "R9", 0.2, False), ("Q2", "R8", 0.3, False), ("Q2", "R2", 0.4, True)]
EDITS = {"Q2": "crop blur"}


def ranked() -> RankedPairs:
    queries, references, distances, true = zip(*PAIRS, strict=True)
    found = np.cumsum(true)
    precision = found / np.arange(1, len(PAIRS) + 1)
    return RankedPairs(list(queries), list(references), np.array(distances), np.array(true), precision, found / len(TRUTH.pairs))


def shown(cards: list[Card]) -> list[list[tuple[str, str, str]]]:
    return [[(picture.image_id, picture.label, picture.note) for picture in card.pictures] for card in cards]


def test_misses_are_last_first_beside_what_ranked_above() -> None:
    scores = QueryScores(true={("Q3", "R3"): -2.0}, best_wrong={"Q3": ("R7", -3.0)})
    cards = draw_missed_copies(ranked(), TRUTH, scores, EDITS)
    assert shown(cards) == [
        [("Q4", "query", ""), ("R4", "true", "")],
        [("Q3", "query", ""), ("R3", "true", "score −2.000"), ("R7", "nearest wrong", "score −3.000")],
        [("Q2", "query", ""), ("R2", "true", "score −0.400"), ("R8", "ranked above it", "score −0.300")],
    ]
    assert [card.text for card in cards] == ["not among the ranked pairs", "not among the ranked pairs", "rank 4"]
    assert cards[2].edits == "crop blur"


def test_false_alarms_are_most_confident_first() -> None:
    cards = draw_false_alarms(ranked(), TRUTH, QueryScores(), EDITS)
    assert [card.text for card in cards] == ["rank 2; the query copies nothing", "rank 3; another reference is right"]
    assert shown(cards)[1][2] == ("R2", "true reference", "")


def test_found_copies_are_true_pairs_within_90_percent_precision() -> None:
    assert [card.pictures[1].image_id for card in draw_found_copies(ranked(), EDITS)] == ["R1"]
