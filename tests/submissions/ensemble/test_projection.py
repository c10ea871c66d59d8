"""PCA of all models' vectors: Faiss's, with weights of the models, fitted on training vectors alone."""

from pathlib import Path

import faiss
import numpy as np
import pandas as pd
import pytest

from image_copies.data.errors import UserError
from image_copies.submissions.ensemble.projection import (
    fit_projection,
    fit_projection_on_rows,
    load_projection,
    require_training_only,
    save_projection,
    scale_to_unit_length,
)
from image_copies.submissions.ensemble.variant import Variant, read_choice, tabulate_variant, write_choice
from image_copies.submissions.settings import EnsembleSettings
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors, open_concatenated
from image_copies.submissions.vectors.files import write_vectors


def correlated(rows: int, dimensions: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.standard_normal((rows, dimensions)) @ rng.standard_normal((dimensions, dimensions))).astype(np.float32)


@pytest.mark.parametrize("power", [0.0, -0.5, -0.25])
def test_equals_faiss_up_to_signs(power: float) -> None:
    """The paper's PCA is Faiss's; ours is made from sums, which shards can add up."""
    training = correlated(300, 12)
    faiss_pca = faiss.PCAMatrix(12, 8, power)
    faiss_pca.train(training)
    theirs = scale_to_unit_length(faiss_pca.apply(training[:50]))
    ours = fit_projection(training).apply(training[:50], 8, power)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


def test_saved_projection_gives_the_same_vectors(tmp_path: Path) -> None:
    projection = fit_projection(correlated(100, 6))
    save_projection(tmp_path / "projection.h5", projection)
    vectors = correlated(5, 6)
    assert (
        load_projection(tmp_path / "projection.h5").apply(vectors, 4, -0.5).tobytes()
        == projection.apply(vectors, 4, -0.5).tobytes()
    )
    (tmp_path / "projection.h5").write_bytes(b"not HDF5")
    with pytest.raises(UserError, match="Run step 03 again"):
        load_projection(tmp_path / "projection.h5")


def test_zero_rows_stay_zero_and_what_does_not_fit_is_refused() -> None:
    projection = fit_projection(correlated(100, 6))
    assert not projection.apply(np.zeros((2, 6), np.float32), 4, -0.5).any()
    with pytest.raises(UserError, match="have 5 dimensions, the projection was fitted on 6"):
        projection.apply(np.zeros((1, 5), np.float32), 4, 0)
    with pytest.raises(UserError, match="but 7 are needed"):
        projection.apply(np.zeros((1, 6), np.float32), 7, 0)
    require_training_only(["T1", "T2"], {"query": ["Q1"], "reference": ["R1"]})
    with pytest.raises(UserError, match="1 training ids are also reference ids, the first is 'R7'"):
        require_training_only(["T1", "R7"], {"query": ["Q1"], "reference": ["R1", "R7"]})


def test_fewer_training_vectors_than_dimensions() -> None:
    projection = fit_projection(correlated(10, 30))
    assert len(projection.axes) == 10
    assert np.isfinite(projection.apply(correlated(4, 30), 9, -0.5)).all()
    assert not projection.weighted_axes(10, -0.5)[:, 9].any()  # ten vectors span nine dimensions
    with pytest.raises(UserError, match="too few to fit a PCA"):
        fit_projection(correlated(1, 4))
    with pytest.raises(
        UserError, match=r"10 training vectors with 30 dimensions .* at most 10 dimensions, but 16 are .* add training"
    ):
        fit_projection(correlated(10, 30), 16)
    for rows in (40, 14):  # more images alone would not help
        with pytest.raises(UserError, match=rf"{rows} training vectors with 12 dim.* at most 12, or add models"):
            fit_projection(correlated(rows, 12), 16)


def test_weights_in_blocks_of_coordinates_are_the_weighted_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    projection, vectors = fit_projection(correlated(100, 6)), correlated(50, 6)
    expected = scale_to_unit_length((vectors - projection.mean) @ projection.weighted_axes(4, -0.5))
    whole = projection.apply(vectors, 4, -0.5)
    np.testing.assert_allclose(whole, expected, atol=1e-5)
    monkeypatch.setattr("image_copies.submissions.ensemble.projection.ROWS_PER_BLOCK", 7)
    again = projection.weight(projection.coordinates(vectors, 6)[:, :4], -0.5)
    np.testing.assert_allclose(again, whole, atol=1e-6)


def test_chosen_rows_of_files_are_fitted_as_if_they_were_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConcatenatedVectors.blocks, "__defaults__", (7,))  # the rows lie in several blocks
    vectors = correlated(60, 5)
    write_vectors(tmp_path / "vectors.h5", [f"T{row}" for row in range(60)], [vectors])
    rows = np.array([3, 4, 11, 19, 20, 21, 30, 41, 42, 58])
    found = fit_projection_on_rows(open_concatenated([tmp_path / "vectors.h5"]), rows)
    np.testing.assert_allclose(found.mean, vectors[rows].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.eigenvalues, fit_projection(vectors[rows]).eigenvalues, rtol=1e-5)


RNG = np.random.default_rng(0)


def files(folder: Path) -> list[Path]:
    paths = []
    for name, dimensions in (("a", 6), ("b", 4)):
        vectors = RNG.standard_normal((50, dimensions)).astype(np.float32)
        write_vectors(folder / f"{name}.h5", [f"T{row}" for row in range(50)], [vectors])
        paths.append(folder / f"{name}.h5")
    return paths


def test_a_projection_of_weighted_vectors_takes_plain_ones(tmp_path: Path) -> None:
    joined = open_concatenated(files(tmp_path))
    weighted = joined.weighted((1.0, 0.3))
    plain, small = (np.concatenate(list(vectors.blocks())) for vectors in (joined, weighted))
    np.testing.assert_allclose(small[:, 6:], 0.3 * plain[:, 6:], rtol=1e-6)
    projection = fit_projection(small, 5)
    of_plain = projection.of_unweighted(weighted.weight_of_dimensions())
    np.testing.assert_allclose(of_plain.apply(plain, 5, -0.5), projection.apply(small, 5, -0.5), atol=1e-5)


def test_a_model_of_weight_0_says_nothing(tmp_path: Path) -> None:
    joined = open_concatenated(files(tmp_path)).weighted((1.0, 0.0))
    projection = fit_projection(np.concatenate(list(joined.blocks())), 5).of_unweighted(joined.weight_of_dimensions())
    vectors = RNG.standard_normal((7, 10)).astype(np.float32)
    other = np.concatenate([vectors[:, :6], RNG.standard_normal((7, 4)).astype(np.float32)], axis=1)
    np.testing.assert_array_equal(projection.apply(vectors, 5, 0.0), projection.apply(other, 5, 0.0))


@pytest.mark.parametrize(
    ("weights", "combinations"),
    [
        (None, [()]),
        ({"b": 0.5}, [(1.0, 0.5)]),
        ({"b": [0, 1]}, [(1.0, 0.0), ()]),
        ({"a": [0, 2], "b": [0, 1]}, [(0.0, 1.0), (2.0, 0.0), (2.0, 1.0)]),
    ],
)
def test_every_combination_but_nothing_at_all(weights: object, combinations: list[tuple[float, ...]]) -> None:
    assert EnsembleSettings.model_validate({"weights": weights}).weightings(["a", "b"]) == combinations


@pytest.mark.parametrize("weights", [(), (1.0, 0.5)])
def test_the_choice_keeps_the_weights(tmp_path: Path, weights: tuple[float, ...]) -> None:
    variant = Variant(8, -0.5, "method1", 2.0, weights)
    write_choice(tmp_path / "choice.csv", pd.DataFrame([tabulate_variant(variant) | {"micro_average_precision": 0.5}]))
    assert read_choice(tmp_path / "choice.csv")[0] == variant
