"""The KoLeo term against its formula."""

import math

import pytest
import torch
from torch.nn import functional

from image_copies.models.objectives.koleo import Koleo, koleo
from image_copies.models.objectives.settings import ArcFaceSettings, InfoNceSettings
from image_copies.models.objectives.svmax import Svmax

LABELS = torch.tensor([0, 0, 1, 1, 2, 3])
VECTORS = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))


def literal() -> float:
    """−(1 / n) Σ log of the distance to the nearest vector of another class."""
    x = functional.normalize(VECTORS.double())
    nearest = [min(float((x[i] - x[j]).norm()) for j in range(6) if LABELS[i] != LABELS[j]) for i in range(6)]
    return -sum(map(math.log, nearest)) / 6


def test_it_equals_its_formula_beside_any_objective() -> None:
    for settings in (ArcFaceSettings(), InfoNceSettings()):
        plain = settings.build(8, 4, 0)
        both = Koleo(Svmax(settings.build(8, 4, 0)), 3.0)
        output = both(VECTORS, LABELS)
        assert float(output.loss.detach()) == pytest.approx(float(plain(VECTORS, LABELS).loss.detach()) + 3 * literal(), rel=1e-4)
        assert float(output.logs["koleo"]) == pytest.approx(literal(), rel=1e-4) and "mean_singular_value" in output.logs
        both.measures = False
        assert "mean_singular_value" not in both(VECTORS, LABELS).logs
        assert (both.class_matrix() is None) == (plain.class_matrix() is None)
        assert both.takes_local_batch == plain.takes_local_batch


def test_its_gradient_moves_the_nearest_apart_and_stays_finite() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.05], [-1.0, 0.0]], requires_grad=True)
    koleo(functional.normalize(rows), torch.arange(3)).backward()
    assert rows.grad is not None and rows.grad[0, 1] > 0 > rows.grad[1, 1]  # a step against it turns them from each other
    equal = torch.ones(4, 3, requires_grad=True)
    koleo(functional.normalize(equal), torch.arange(4)).backward()
    assert equal.grad is not None and equal.grad.isfinite().all()
    assert koleo(functional.normalize(VECTORS), torch.zeros(6)) == 0  # one class: nobody to keep away from
