import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.ensemble.projection import fit_projection, scale_to_unit_length
from image_copies.submissions.ensemble.selection import ValidationVectors, choose_variant, find_best_beta, project_validation
from image_copies.submissions.ensemble.variant import read_choice, write_choice
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.settings import EnsembleSettings, NormalizationSettings
from image_copies.submissions.vectors.concatenated import ROWS_PER_BLOCK, ConcatenatedVectors, open_concatenated
from image_copies.submissions.vectors.files import Vectors, write_vectors


def stored(path: Path, prefix: str, values: np.ndarray) -> ConcatenatedVectors:
    write_vectors(path, [f"{prefix}{i}" for i in range(len(values))], [values.astype(np.float32)])
    return open_concatenated([path])


def ids(*rows: int) -> list[str]:
    return [f"T{row}" for row in range(*rows)]


@pytest.fixture
def candidates(tmp_path: Path) -> ValidationVectors:
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((300, 6))
    noise = 40 * rng.standard_normal((300, 2))  # large useless variance: whitening must win over plain PCA
    training = stored(tmp_path / "training.h5", "T", np.concatenate([signal, noise], axis=1))
    copied = np.concatenate([signal[:60] + 0.3 * rng.standard_normal((60, 6)), 40 * rng.standard_normal((60, 2))], axis=1)
    return project_validation(training, ids(60), ids(100), stored(tmp_path / "synthetic.h5", "Q", copied), 8, 1000, 0)


TRUTH = GroundTruth([f"Q{i}" for i in range(60)], frozenset((f"Q{i}", f"T{i}") for i in range(60)))


def test_the_best_candidate_on_the_synthetic_queries_wins(tmp_path: Path, candidates: ValidationVectors) -> None:
    variant, table = choose_variant(
        candidates,
        TRUTH,
        EnsembleSettings(dimensions=[4, 8], eigen_power=[0.0, -0.5]),
        NormalizationSettings(beta1=[1.0, 2.0], direction_neighbours=20),
    )
    assert (variant.dimensions, variant.eigen_power) == (8, -0.5)
    assert len(table) == 2 * 2 * (1 + 2 + 1)
    assert table["micro_average_precision"].is_monotonic_decreasing
    write_choice(tmp_path / "choice.csv", table)
    again, read = read_choice(tmp_path / "choice.csv")
    assert again == variant
    best = table[(table["dimensions"] == 8) & (table["eigen_power"] == -0.5) & (table["method"] == "method1")].iloc[0]
    assert find_best_beta(read, variant, "method1") == best["beta"] and best["beta"] in (1.0, 2.0)


def test_a_model_that_whitening_spoils_is_submitted_as_it_is(tmp_path: Path) -> None:
    """A small recipe that names no candidates submitted less than its model gave alone."""
    rng = np.random.default_rng(0)
    signal, noise = rng.standard_normal((300, 4)), 0.1 * rng.standard_normal((300, 12))
    training = stored(tmp_path / "training.h5", "T", scale_to_unit_length(np.concatenate([signal, noise], axis=1)))
    copied = np.concatenate([signal[:60] + 0.3 * rng.standard_normal((60, 4)), 0.1 * rng.standard_normal((60, 12))], axis=1)
    synthetic = stored(tmp_path / "synthetic.h5", "Q", scale_to_unit_length(copied))
    projected = project_validation(training, ids(60), ids(100), synthetic, 16, 1000, 0)
    variant, table = choose_variant(
        projected, TRUTH, EnsembleSettings(dimensions=16), NormalizationSettings(direction_neighbours=20)
    )
    queries = Vectors(synthetic.ids, np.concatenate(list(synthetic.blocks())), synthetic.unreadable)
    references = Vectors(training.ids[:60], np.concatenate(list(training.blocks()))[:60], training.unreadable[:60])
    alone = evaluate(queries, references, TRUTH)[0].micro_average_precision
    assert variant.eigen_power == 0 and table.iloc[0]["micro_average_precision"] > alone - 0.01


def test_candidates_are_what_all_vectors_at_once_give(tmp_path: Path) -> None:
    """But for those of unreadable images."""
    rng = np.random.default_rng(2)
    several = 2 * ROWS_PER_BLOCK + 90
    values, asked = (5 + rng.standard_normal((rows, 6)).astype(np.float32) for rows in (several, 20))
    unreadable = np.arange(several) >= several - 9
    write_vectors(tmp_path / "t.h5", ids(several), [np.where(unreadable[:, None], 0, values).astype(np.float32)], unreadable)
    training, synthetic = open_concatenated([tmp_path / "t.h5"]), stored(tmp_path / "s.h5", "Q", asked)
    values = values[:-9]
    found = project_validation(training, ids(5, 15), ids(30), synthetic, 5, several, 0)
    whole = fit_projection(values[30:])
    synthetic_queries, references, trained = found.weight(4, -0.5)
    for rows, made in ((asked, synthetic_queries.vectors), (values[5:15], references.vectors), (values[30:], trained)):
        np.testing.assert_allclose(made, whole.apply(rows, 4, -0.5), atol=1e-5)
    assert found.references.ids == ids(5, 15)
    fewer = project_validation(training, ids(5, 15), ids(30), synthetic, 5, 20, 0)
    assert not np.allclose(fewer.projection.mean, found.projection.mean)  # fitted on a sample of 20
    assert len(fewer.training) == several - 39


def test_several_candidates_never_hold_the_training_vectors(tmp_path: Path) -> None:
    """Blocks of them and a sample; all at once took more than twice their bytes."""
    block = np.random.default_rng(0).standard_normal((10_000, 64)).astype(np.float32)
    write_vectors(tmp_path / "t.h5", ids(200_000), [block] * 20)
    training = open_concatenated([tmp_path / "t.h5", tmp_path / "t.h5"])
    synthetic = stored(tmp_path / "s.h5", "Q", np.tile(block[:100], 2))
    truth = GroundTruth(synthetic.ids, frozenset(zip(synthetic.ids, ids(100), strict=True)))
    tracemalloc.start()
    candidates = project_validation(training, ids(100), ids(200), synthetic, 16, 2000, 0)
    choose_variant(candidates, truth, EnsembleSettings(dimensions=[8, 16], eigen_power=[0, -0.5]), NormalizationSettings())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 2**20 < peak < 0.75 * 200_000 * 128 * 4


def test_real_queries_and_references_cannot_reach_the_choice(tmp_path: Path) -> None:
    """The function takes training vectors and synthetic queries only; its PCA sees no held-out row."""
    rng = np.random.default_rng(1)
    values = scale_to_unit_length(rng.standard_normal((120, 6)).astype(np.float32))
    moved = values.copy()
    moved[:20] = scale_to_unit_length(rng.standard_normal((20, 6)).astype(np.float32))  # other distractors, not references
    synthetic = stored(tmp_path / "synthetic.h5", "Q", values[30:31])
    truth = GroundTruth(["Q0"], frozenset({("Q0", "T30")}))
    tables = [
        choose_variant(
            project_validation(stored(tmp_path / "training.h5", "T", rows), ids(20, 40), ids(40), synthetic, 4, 1000, 0),
            truth,
            EnsembleSettings(dimensions=4),
            NormalizationSettings(direction_neighbours=10),
        )[1]
        for rows in (values, moved)
    ]
    assert tables[0].equals(tables[1])


def test_too_few_training_vectors_are_named_with_their_file(tmp_path: Path, candidates: ValidationVectors) -> None:
    with pytest.raises(
        UserError, match=r"training\.h5 without the 100 validation images: .* needs 300 .* there are only 200 training v"
    ):
        choose_variant(candidates, TRUTH, EnsembleSettings(), NormalizationSettings(methods="method2", direction_neighbours=300))
    training = open_concatenated([tmp_path / "training.h5"])
    with pytest.raises(UserError, match=r"training\.h5 without the 296 validation images: a PCA of 4 training vectors with 8"):
        project_validation(training, ids(60), ids(296), training, 8, 1000, 0)
    with pytest.raises(UserError, match=r"training\.h5: 1 images have no vector, the first is 'T300'"):
        project_validation(training, ids(301), ids(60), training, 8, 1000, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"choice\.csv is not a choice that step 03 wrote"),
        ("a,b\n1,2\n", r"choice\.csv is not a choice that step 03 wrote"),
        ("dimensions,eigen_power,method,beta\n", r"choice\.csv is not a choice that step 03 wrote"),
        ("dimensions,eigen_power,method,beta,weights\n8,0.0,method3,1.0,\n", "unknown method 'method3'"),
    ],
)
def test_a_broken_choice_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "choice.csv").write_text(text)
    with pytest.raises(UserError, match=f"{message}.*run step 03 again"):
        read_choice(tmp_path / "choice.csv")


def test_with_left_out_families_the_mean_of_both_halves_decides(tmp_path: Path, candidates: ValidationVectors) -> None:
    def half(rows: range) -> GroundTruth:
        return GroundTruth([f"Q{row}" for row in rows], frozenset((f"Q{row}", f"T{row}") for row in rows))

    ensemble, plain = EnsembleSettings(dimensions=[4, 8], eigen_power=[0.0, -0.5]), NormalizationSettings(methods="none")
    learnt, other = half(range(45)), half(range(45, 60))
    variant, table = choose_variant(candidates, learnt, ensemble, plain, left_out=other)
    alone = [choose_variant(candidates, truth, ensemble, plain)[1] for truth in (learnt, other)]
    keys = ["dimensions", "eigen_power"]
    one, two = (part.set_index(keys)["micro_average_precision"] for part in alone)
    found = table.set_index(keys)
    assert (found["learnt_families"] == one.reindex(found.index)).all()
    assert (found["left_out_families"] == two.reindex(found.index)).all()
    assert found["micro_average_precision"].tolist() == ((one + two) / 2).sort_values(ascending=False).tolist()
    write_choice(tmp_path / "choice.csv", table)
    assert read_choice(tmp_path / "choice.csv")[0] == variant
