import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.formats import matching_track
from image_copies.submissions.formats.matching_track import evaluate_matches, write_matches, write_pairs
from image_copies.submissions.scoring.breakdown import read_edits, tabulate_recall_by_edit, write_curve
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors


def vectors(prefix: str, count: int, seed: int) -> Vectors:
    values = np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)
    return Vectors([f"{prefix}{i}" for i in range(count)], values, np.zeros(count, bool))


def test_a_written_file_scores_like_its_vectors(tmp_path: Path) -> None:
    queries, references = vectors("Q", 12, 0), vectors("R", 30, 1)
    truth = GroundTruth(queries.ids, frozenset((f"Q{i}", f"R{i}") for i in range(6)))
    assert write_matches(tmp_path / "m.csv", queries, references) == 120
    by_file, _ = evaluate_matches(tmp_path / "m.csv", truth)
    by_vectors, ranked = evaluate(queries, references, truth)
    assert by_file.micro_average_precision == pytest.approx(by_vectors.micro_average_precision, abs=1e-9)
    assert by_file.recall_at_precision_90 == pytest.approx(by_vectors.recall_at_precision_90)
    write_curve(tmp_path / "curve.csv", ranked)
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 121


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_equals_a_literal_walk_with_ties_duplicates_and_strangers(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [(f"Q{rng.integers(6)}", f"R{rng.integers(4)}", int(rng.integers(4))) for _ in range(rng.integers(0, 40))]
    rows.append((f"Q{rng.integers(4)}", f"R{rng.integers(4)}", int(rng.integers(4))))  # a query that counts
    truth = GroundTruth([f"Q{i}" for i in range(4)], frozenset({("Q0", "R0"), ("Q1", "R1"), ("Q1", "R2"), ("Q3", "R3")}))
    path = tmp_path_factory.mktemp("m") / "m.csv"
    path.write_text("query_id,reference_id,score\n" + "".join(f"{q},{r},{s}\n" for q, r, s in rows))
    best: dict[tuple[str, str], int] = {}
    for query, reference, score in rows:
        if query in truth.query_ids:
            best[query, reference] = max(score, best.get((query, reference), -1))
    walk = sorted((-score, pair in truth.pairs) for pair, score in best.items())
    found, area = 0, 0.0
    for rank, (_, true) in enumerate(walk, start=1):
        found += true
        area += true * found / rank / 4
    scores, _ = evaluate_matches(path, truth)
    assert scores.micro_average_precision == pytest.approx(area, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query_id,reference_id\nQ,R\n", "expected query_id,reference_id,score"),
        (f"query_id,reference_id,score\nQ,R,1\nQ,S,{'9' * 400}\n", "line 3: the score .* is not a finite number"),
        ("query_id,reference_id,score\nQ,R,high\n", "line 2: the score 'high' is not a finite number"),
        ("query_id,reference_id,score\nQ,R,1\nQ,S,nan\n", "line 3"),
        ("query_id,reference_id,score\nQ,R,1,2\nQ,S,1,2\n", "m.csv has lines with more values than the columns"),
        ("query_id,reference_id,score\n" + "Q,R,1\n" * 1001, "1,001 rows; the matching track allows 1,000"),
        ("query_id,reference_id,score\nP1,R0,1\n", "none of its 1 queries, such as 'P1', is among the 2 .*, such as 'Q0'"),
        ("query_id,reference_id,score\nQ0,S1,1\n", "none of its 1 references, such as 'S1', is among the 1 .*, such as 'R0'"),
    ],
)
def test_wrong_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.setattr(matching_track, "MAX_ROWS", 1000)
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        evaluate_matches(tmp_path / "m.csv", GroundTruth(["Q0", "Q1"], frozenset({("Q0", "R0")})))


def test_a_file_may_lack_queries_and_name_others_by_any_bytes(tmp_path: Path) -> None:
    truth = GroundTruth(["Q0", "Q1"], frozenset({("Q0", "R0"), ("Q1", "R1")}))
    (tmp_path / "m.csv").write_text("query_id,reference_id,score\nQ0,R0,1\nQ9,R9,2\n")
    assert evaluate_matches(tmp_path / "m.csv", truth)[0].micro_average_precision == 0.5
    (tmp_path / "m.csv").write_text("query_id,reference_id,score\n")
    assert evaluate_matches(tmp_path / "m.csv", truth)[0].micro_average_precision == 0
    assert write_pairs(tmp_path / "m.csv", [(os.fsdecode(b"b\xfe"), "R0", -0.5), ("Q1", "R,1", 2.0)]) == 2
    assert (tmp_path / "m.csv").read_bytes() == b'query_id,reference_id,score\nQ1,"R,1",2.0\nb\xfe,R0,-0.5\n'


@pytest.mark.parametrize("text", [None, "", "query_id,reference_id\nQ,R\n", "query_id,edits\nQ,a,b\n"])
def test_edits_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "edits.csv").write_text(text)
    with pytest.raises(UserError, match=r"edits\.csv"):
        read_edits(tmp_path / "edits.csv")


def test_recall_by_edit_counts_copies_found_at_90_percent() -> None:
    queries = Vectors(["Q0", "Q1", "Q2"], np.array([[0, 0], [10, 0], [20, 5]], np.float32), np.zeros(3, bool))
    references = Vectors(["R0", "R1", "R2"], np.array([[0, 0], [10, 0.1], [0, 40]], np.float32), np.zeros(3, bool))
    truth = GroundTruth(queries.ids, frozenset((f"Q{i}", f"R{i}") for i in range(3)))
    _, ranked = evaluate(queries, references, truth)
    edits = {"Q0": ["crop"], "Q1": ["crop", "blur"], "Q2": ["crop", "blur"]}
    table = tabulate_recall_by_edit(ranked, truth, edits).set_index("edit")
    assert table.loc["crop", "copies"] == 3 and table.loc["crop", "recall"] == pytest.approx(2 / 3)
    assert table.loc["blur", "recall"] == pytest.approx(1 / 2)
