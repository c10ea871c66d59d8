"""Weights of the models that are joined: they lie in the projection, so that nobody who projects need know of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from image_copies.submissions.ensemble.projection import fit_projection
from image_copies.submissions.ensemble.variant import Variant, read_choice, tabulate_variant, write_choice
from image_copies.submissions.settings import EnsembleSettings
from image_copies.submissions.vectors.concatenated import open_concatenated
from image_copies.submissions.vectors.files import write_vectors

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
    plain, small = joined.rows(np.arange(50)), weighted.rows(np.arange(50))
    np.testing.assert_allclose(small[:, 6:], 0.3 * plain[:, 6:], rtol=1e-6)
    projection = fit_projection(small, 5)
    of_plain = projection.of_unweighted(weighted.weight_of_dimensions())
    np.testing.assert_allclose(of_plain.apply(plain, 5, -0.5), projection.apply(small, 5, -0.5), atol=1e-5)


def test_a_model_of_weight_0_says_nothing(tmp_path: Path) -> None:
    joined = open_concatenated(files(tmp_path)).weighted((1.0, 0.0))
    projection = fit_projection(joined.sample(50), 5).of_unweighted(joined.weight_of_dimensions())
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
