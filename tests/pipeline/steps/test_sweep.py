"""The sweep's rows are named by the numbers of neighbours that were used."""

import re

import numpy as np
import pytest

from image_copies.pipeline.steps.normalize import _normalize_each
from image_copies.submissions.ensemble.normalization import METHODS
from image_copies.submissions.ensemble.projection import scale_to_unit_length


@pytest.mark.parametrize(("training", "ks"), [(2, {"2"}), (5, {"3", "5"}), (120, {"3", "10", "30", "100"})])
def test_the_names_give_the_neighbours_there_are(training: int, ks: set[str]) -> None:
    rng = np.random.default_rng(0)
    queries, references, others = (
        scale_to_unit_length(rng.standard_normal((rows, 4)).astype(np.float32)) for rows in (3, 6, training)
    )
    names = [name for name, _, _ in _normalize_each(queries, references, others)]
    assert {k for name in names for k in re.findall(r"k (\d+)", name)} == ks
    for row in METHODS.values():
        assert any(name.startswith(row.label) for name in names)
    assert f"negative embedding subtraction, β 0.35, k {min(10, training)}" in names
    assert f"score normalisation, α 1, k {min(3, training)}" in names
