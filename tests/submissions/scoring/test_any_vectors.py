"""Vectors of any dimension are scored and normalised: from files of both forms, from Python, from the command line."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import image_copies
from image_copies.data.errors import UserError
from image_copies.data.ground_truth import write_ground_truth
from image_copies.submissions.ensemble.normalization import normalize_by_variant
from image_copies.submissions.ensemble.projection import fit_projection, scale_to_unit_length
from image_copies.submissions.ensemble.variant import Variant
from image_copies.submissions.scoring.any_vectors import reduce
from image_copies.submissions.settings import NormalizationSettings
from image_copies.submissions.vectors.files import Vectors, write_vectors

DIMENSIONS = 512  # more than the challenge allows
TRUTH = {f"Q{row}": f"R{row}" if row < 6 else None for row in range(9)}


def draw(prefix: str, rows: int, seed: int) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((rows, DIMENSIONS)).astype(np.float32)
    return Vectors([f"{prefix}{row}" for row in range(rows)], vectors, np.zeros(rows, bool))


@pytest.fixture
def references() -> Vectors:
    return draw("R", 20, 0)


@pytest.fixture
def queries(references: Vectors) -> Vectors:
    """Six noisy copies, of which one is unreadable, and three of nothing."""
    made = draw("Q", 9, 1)
    made.vectors[:6] = references.vectors[:6] + 0.1 * made.vectors[:6]
    made.vectors[5], made.unreadable[5] = 0, True
    return made


def write(folder: Path, queries: Vectors, references: Vectors) -> tuple[Path, Path, Path]:
    for name, part in (("q", queries), ("r", references)):
        write_vectors(folder / f"{name}.h5", part.ids, [part.vectors], part.unreadable)
    write_ground_truth(folder / "truth.csv", TRUTH.items())
    return folder / "q.h5", folder / "r.h5", folder / "truth.csv"


def test_files_and_mappings_have_the_same_scores(queries: Vectors, references: Vectors, tmp_path: Path) -> None:
    asked, held, truth = write(tmp_path, queries, references)
    scores = image_copies.score(asked, str(held), truth)
    assert scores.micro_average_precision == pytest.approx(5 / 6) and (scores.queries, scores.references) == (9, 20)
    by_id, others = (dict(zip(part.ids, part.vectors, strict=True)) for part in (queries, references))
    by_id["Q5"] = np.full(DIMENSIONS, 100.0, np.float32)  # far from all
    assert image_copies.score(by_id, others, TRUTH) == scores
    with h5py.File(tmp_path / "both.h5", "w") as file:
        for name, part in (("query", by_id), ("reference", others)):
            file[name] = np.stack(list(part.values()))
            file.create_dataset(f"{name}_ids", data=np.array(list(part), object), dtype=h5py.string_dtype("utf-8"))
    assert image_copies.score(tmp_path / "both.h5", tmp_path / "both.h5", truth) == scores


def test_the_command_prints_the_same(
    queries: Vectors, references: Vectors, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, held, truth = map(str, write(tmp_path, queries, references))
    main = import_module("image_copies.pipeline.06_score").main
    line = ["--queries", asked, "--references", held, "--ground-truth", truth]
    assert main([*line, "--output", str(tmp_path / "scores.json")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["µAP", f"{5 / 6:.4f}"] and shown[-1].endswith("6 copies")
    line.append("--json")
    assert main([*line, "--output", str(tmp_path / "scores.json")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "scores.json").read_text())
    assert printed["micro_average_precision"] == pytest.approx(5 / 6) and set(printed["made_from"]) >= {"queries", "references"}
    training = draw("T", 150, 2)
    write_vectors(tmp_path / "t.h5", training.ids, [training.vectors])
    main([*line, "--training", str(tmp_path / "t.h5")])
    moved = json.loads(capsys.readouterr().out)
    assert "training" in moved["made_from"] and moved["true_pairs"] == 6
    main([*line, "--training", str(tmp_path / "t.h5"), "--dimensions", "60"])
    few = json.loads(capsys.readouterr().out)
    small = [reduce(part.vectors, training.vectors, 60) for part in (queries, references)]
    moved_few = dict(
        zip(queries.ids, image_copies.normalize(small[0], reduce(training.vectors, training.vectors, 60)), strict=True)
    )
    moved_few["Q5"] = np.full(60, 100.0, np.float32)
    expected = image_copies.score(moved_few, dict(zip(references.ids, small[1], strict=True)), TRUTH)
    assert few["micro_average_precision"] == expected.micro_average_precision > 0.5
    for wrong, message in (
        ([*line, "--dimensions", "60"], "together with --training FILE"),
        (line[:4], "all three of --queries FILE, --references FILE and --ground-truth CSV"),
        ([*line, "--submission", asked], "omit the others"),
        (["--training", asked], "--training normalises --queries FILE"),
    ):
        with pytest.raises(UserError, match=message):
            main(wrong)


def test_arrays_are_scaled_normalised_and_reduced_as_the_steps_do() -> None:
    rng = np.random.default_rng(3)
    vectors, training = (rng.standard_normal((rows, 30)) + 0.5 for rows in (4, 120))
    unit, trained = (scale_to_unit_length(part.astype(np.float32)) for part in (vectors, training))
    moved = normalize_by_variant(unit, trained, Variant(30, 0.0, "method2", 0.7), NormalizationSettings())
    assert np.allclose(image_copies.normalize(vectors, training, beta=0.7), moved, atol=1e-6)
    assert np.allclose(reduce(vectors, training, 4), fit_projection(trained).apply(unit, 4, 0.0), atol=1e-6)


def test_what_does_not_belong_together_is_refused(queries: Vectors, references: Vectors, tmp_path: Path) -> None:
    asked, held, truth = write(tmp_path, queries, references)
    cases: list[tuple[Any, Any, Any, str]] = [
        (asked, {"R0": [1, 2, 3]}, truth, "the queries have 512 dimensions, the references 3"),
        ({"Q0": [1, 2]}, {"R0": [1, 2]}, {"Q0": ["R0", "R1"]}, r"ground truth of 'Q0' is \['R0', 'R1'\]"),
        ({"Q0": [1, np.nan]}, {"R0": [1, 2]}, {"Q0": "R0"}, "holds NaN"),
        ({"Q0": [1], "Q1": [1, 2]}, held, truth, r"vectors of \[1, 2\] dimensions"),
        (asked, held, {"Q99": None}, "names 1 queries that the submission lacks"),
    ]
    for *given, message in cases:
        with pytest.raises(UserError, match=message):
            image_copies.score(*given)
    with pytest.raises(UserError, match="method 'method3': give none, method1, method2"):
        image_copies.normalize([[1.0, 2.0]], [[1.0, 2.0]], method="method3")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the training vectors to normalise against"):
        image_copies.normalize(queries.vectors[:2], references.vectors)
    with pytest.raises(UserError, match="30 dimensions, the training vectors 20"):
        image_copies.normalize(np.ones((1, 30)), np.ones((200, 20)))


def test_arrays_of_numpy_are_scored_by_their_row_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "q.npy", np.eye(3, 4))
    np.save(tmp_path / "r.npy", np.eye(4)[::-1])
    found = image_copies.score(tmp_path / "q.npy", str(tmp_path / "r.npy"), {"0": "3", "1": "2", "2": "1"})
    assert found.micro_average_precision == 1
    (tmp_path / "d.npy").write_bytes(b"no array")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    for name, message in {
        "d": "not a .npy file",
        "objects": "not a .npy file",
        "cube": "has the shape",
        "missing": "not a .npy",
    }.items():
        with pytest.raises(UserError, match=rf"{name}\.npy.*{message}"):
            image_copies.score(tmp_path / f"{name}.npy", tmp_path / "r.npy", {"0": "3"})


@pytest.mark.parametrize("value", [None, 5, object(), b"v.h5", "text.txt"])
def test_what_is_no_source_is_named(value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("no vectors")
    good: Any = {"a": [1.0, 0.0]}
    for sources in ((value, good, {"a": "a"}), (good, value, {"a": "a"}), (good, good, value)):
        with pytest.raises(UserError):
            image_copies.score(*sources)


@pytest.mark.parametrize(
    "value",
    [
        *(None, "text", [["a"]], [[1.0], [1.0, 2.0]], np.zeros((2, 2, 2)), [[np.nan, 1.0]], object()),
        *(np.zeros((3, 0)), np.ones((2, 2), complex), np.full((2, 2), 1e19), [[1e39, 1.0]]),
    ],
)
def test_what_holds_no_vectors_is_named(value: Any) -> None:
    unit: Any = np.eye(2)
    for given in ((value, unit), (unit, value)):
        with pytest.raises(UserError, match="Give an array"):
            image_copies.normalize(*given)
    with pytest.raises(UserError, match="the vector of 'a'"):
        image_copies.score({"a": value}, {"a": [1.0, 0.0]}, {"a": "a"})
