import math
from typing import Literal

import pytest
import torch
from torch.nn import functional

from image_copies.models.training.collapse import describe_spread, singular_bounds
from image_copies.studies.svmax.objective import mean_singular_value, spread_out_penalty
from image_copies.studies.svmax.settings import ContrastiveSettings, SvmaxSettings

LABELS = torch.arange(12) // 2


def test_the_bounds_are_reached_and_nothing_to_spread_costs_nothing() -> None:
    for batch, dimensions in ((12, 4), (4, 12)):
        lower, upper = singular_bounds(batch, dimensions)
        assert float(mean_singular_value(torch.eye(dimensions).repeat(3, 1)[:batch])) == pytest.approx(upper)
        assert float(mean_singular_value(functional.normalize(torch.ones(batch, dimensions)))) == pytest.approx(lower)
    orthogonal = torch.eye(6)[torch.arange(12) // 2]
    assert float(spread_out_penalty(orthogonal, LABELS)) == 0
    assert float(spread_out_penalty(orthogonal[:2], LABELS[:2])) == 0  # one class
    assert float(spread_out_penalty(torch.ones(12, 4) / 2, LABELS)) == pytest.approx(1 + 1 - 1 / 4)  # collapsed


@pytest.mark.parametrize("dimensions", [5, 30])
@pytest.mark.parametrize(
    ("form", "normalize", "of_unit"),
    [
        ("bounded", None, True),
        ("bounded", False, False),
        ("unbounded", None, False),
        ("unbounded", True, True),
        (None, None, True),
    ],
)
@pytest.mark.parametrize("half", [False, True])
def test_the_loss_is_the_formula_in_float32_and_s_is_always_logged(
    dimensions: int, form: Literal["bounded", "unbounded"] | None, normalize: bool | None, of_unit: bool, half: bool
) -> None:
    """Of raw embeddings and of unit ones, as in SVMax's table A1."""
    rows = torch.randn(12, dimensions, generator=torch.Generator().manual_seed(1)) * 3
    inner = ContrastiveSettings().build(8, 6, 0)
    base = float(inner(rows, LABELS).loss)
    unit, raw = (float(torch.linalg.svdvals(x.double()).mean()) for x in (functional.normalize(rows), rows))
    lower, upper = math.sqrt(12) / min(12, dimensions), math.sqrt(12 / min(12, dimensions))
    s = unit if of_unit else raw
    added = {"bounded": 0.7 * math.exp((upper - s) / (upper - lower)), "unbounded": -0.7 * s, None: 0.0}[form]
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        output = (SvmaxSettings(form=form, weight=0.7, normalize=normalize).add_to(inner) if form else inner)(
            rows, LABELS, LABELS
        )
    assert output.loss.dtype == torch.float32
    assert float(output.loss) == pytest.approx(base + added, rel=1e-5)
    logs = output.logs if output.rows is None else describe_spread(output.rows)
    assert float(logs["mean_singular_value"]) == pytest.approx(unit, rel=1e-5)
    assert (logs["singular_lower"], logs["singular_upper"]) == pytest.approx((lower, upper))


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("normalize", [None, False])
def test_the_spread_out_baseline_is_the_formula_written_out(normalize: bool | None, half: bool) -> None:
    rows = (torch.randn(12, 5, generator=torch.Generator().manual_seed(1)) * 2).requires_grad_()
    inner = ContrastiveSettings().build(5, 6, 0)
    unit = (rows if normalize is False else functional.normalize(rows)).detach().double()
    pairs = [(i, j) for i in range(12) for j in range(12) if LABELS[i] != LABELS[j]]
    products = [float(unit[i] @ unit[j]) for i, j in pairs]
    first, second = sum(products) / len(pairs), sum(product**2 for product in products) / len(pairs)
    added = 0.7 * (first**2 + max(0.0, second - 1 / 5))
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        base = float(inner(rows, LABELS).loss.detach())
        output = SvmaxSettings(form="spread_out", weight=0.7, normalize=normalize).add_to(inner)(rows, LABELS)
    assert float(output.loss.detach()) == pytest.approx(base + added, rel=1e-5)
    (gradient,) = torch.autograd.grad(output.loss, rows)
    assert torch.isfinite(gradient).all() and "mean_singular_value" in output.logs


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
def test_the_gradient_is_that_of_the_singular_values(shape: tuple[int, int]) -> None:
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.double).requires_grad_()
    assert torch.autograd.gradcheck(mean_singular_value, rows)


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
def test_the_gradient_of_equal_rows_is_that_of_the_singular_values_above_rounding(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(4)
    rows = (torch.randn(shape[0], 3, generator=generator) @ torch.randn(3, shape[1], generator=generator)).requires_grad_()
    mean_singular_value(rows).backward()
    left, values, right = torch.linalg.svd(rows.detach().double(), full_matrices=False)
    expected = sum(torch.outer(left[:, i], right[i]) for i in range(5) if values[i] > 1e-4) / 5
    assert int((values > 1e-4).sum()) == 3 and rows.grad is not None
    torch.testing.assert_close(rows.grad.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["bounded", "unbounded"])
def test_a_collapsed_batch_has_a_finite_gradient_even_under_autocast(form: Literal["bounded", "unbounded"]) -> None:
    rows = torch.ones(12, 8, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        output = SvmaxSettings(form=form).add_to(ContrastiveSettings().build(8, 6, 0))(rows, LABELS, LABELS)
    output.loss.backward()
    assert output.loss.dtype == torch.float32 and rows.grad is not None and rows.grad.isfinite().all()
