from pathlib import Path

import numpy as np
import pytest

from data.errors import UserError
from data.ground_truth import GroundTruth
from submissions.projection import unit_length
from submissions.selection import best_beta, choose_variant, read_choice, write_choice
from submissions.settings import EnsembleSettings, NormalizationSettings
from submissions.vectors import Vectors


def test_the_best_candidate_on_the_synthetic_queries_wins(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((300, 6))
    noise = 40 * rng.standard_normal((300, 2))  # large useless variance: whitening must win over plain PCA
    training = Vectors(
        [f"T{i}" for i in range(300)], np.concatenate([signal, noise], axis=1).astype(np.float32), np.zeros(300, bool)
    )
    copied = np.concatenate([signal[:60] + 0.3 * rng.standard_normal((60, 6)), 40 * rng.standard_normal((60, 2))], axis=1)
    queries = Vectors([f"Q{i}" for i in range(60)], copied.astype(np.float32), np.zeros(60, bool))
    truth = GroundTruth(queries.ids, frozenset((f"Q{i}", f"T{i}") for i in range(60)))
    variant, table = choose_variant(
        training,
        [f"T{i}" for i in range(60)],
        [f"T{i}" for i in range(100)],
        queries,
        truth,
        EnsembleSettings(dimensions=[4, 8], eigen_power=[0.0, -0.5]),
        NormalizationSettings(beta1=[1.0, 2.0], direction_neighbours=20),
    )
    assert (variant.dimensions, variant.eigen_power) == (8, -0.5)
    assert len(table) == 2 * 2 * (1 + 2 + 1)
    assert table["micro_average_precision"].is_monotonic_decreasing
    write_choice(tmp_path, variant, table)
    again, read = read_choice(tmp_path)
    assert again == variant
    assert best_beta(read, variant, "method1") in (1.0, 2.0)


def test_real_queries_and_references_cannot_reach_the_choice() -> None:
    """The function takes training vectors and synthetic queries only; its PCA sees no held-out row."""
    rng = np.random.default_rng(1)
    values = unit_length(rng.standard_normal((120, 6)).astype(np.float32))
    moved = values.copy()
    moved[:20] = unit_length(rng.standard_normal((20, 6)).astype(np.float32))  # other distractors, not references
    queries = Vectors(["Q0"], values[30:31], np.zeros(1, bool))
    truth = GroundTruth(["Q0"], frozenset({("Q0", "T30")}))
    tables = [
        choose_variant(
            Vectors([f"T{i}" for i in range(120)], rows, np.zeros(120, bool)),
            [f"T{i}" for i in range(20, 40)],
            [f"T{i}" for i in range(40)],
            queries,
            truth,
            EnsembleSettings(dimensions=4),
            NormalizationSettings(direction_neighbours=10),
        )[1]
        for rows in (values, moved)
    ]
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "dimensions,eigen_power,method,beta\n"])
def test_a_broken_choice_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "choice.csv").write_text(text)
    with pytest.raises(UserError, match=r"choice\.csv is not the choice that step 03 wrote .*do step 03 again"):
        read_choice(tmp_path)
