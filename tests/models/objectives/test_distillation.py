"""Distillation against its formulas written out, its properties, and what it leaves alone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from image_copies.models.objectives.distillation import Distillation, compare_relations, compare_vectors
from image_copies.models.objectives.settings import ArcFaceSettings, DistillationSettings, InfoNceSettings
from image_copies.models.objectives.svmax import Svmax

LABELS = torch.tensor([0, 0, 1, 1, 2, 3])
INSTANCES = torch.tensor([4, 4, 0, 2, 5, 1])  # the second row is another view of the first's image
VECTORS = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))


def teach(dimensions: int) -> Tensor:
    """A teacher's vectors of seven images, of which the one that row 4 shows cannot be read."""
    taught = functional.normalize(torch.randn(7, dimensions, generator=torch.Generator().manual_seed(1)))
    taught[5] = 0
    return taught.half().float()


def literal(kind: str, tau: float, taught: Tensor) -> float:
    z, t = functional.normalize(VECTORS.double()), functional.normalize(taught.double()[INSTANCES])
    terms = []
    for i in range(6):
        if not t[i].any():
            continue
        if kind == "vectors":
            terms.append(1 - float(z[i] @ t[i]))
            continue
        others = [j for j in range(6) if INSTANCES[j] != INSTANCES[i] and t[j].any()]
        p, q = ([math.exp(float(x[i] @ x[j]) / tau) for j in others] for x in (t, z))
        terms.append(sum(a / sum(p) * math.log((a / sum(p)) / (b / sum(q))) for a, b in zip(p, q, strict=True)))
    return sum(terms) / len(terms)


@pytest.mark.parametrize(("kind", "tau", "dimensions"), [("vectors", 0.04, 8), ("relations", 0.3, 5), ("relations", 0.04, 8)])
def test_it_equals_its_formula_beside_any_objective(kind: str, tau: float, dimensions: int) -> None:
    taught = teach(dimensions)
    expected = literal(kind, tau, taught)
    term = DistillationSettings.model_validate({"kind": kind, "weight": 3.0, "temperature": tau})
    for objective in (ArcFaceSettings(), InfoNceSettings()):
        plain = objective.build(8, 4, 0)
        both = Distillation(Svmax(objective.build(8, 4, 0)), term, taught)
        output, alone = both(VECTORS, LABELS, INSTANCES), plain(VECTORS, LABELS, INSTANCES)
        assert float(output.loss.detach()) == pytest.approx(float(alone.loss.detach()) + 3 * expected, rel=1e-4)
        assert float(output.logs["distillation"]) == pytest.approx(expected, rel=1e-4)
        assert "mean_singular_value" in output.logs
        both.measures = False
        assert "mean_singular_value" not in both(VECTORS, LABELS, INSTANCES).logs
        assert (both.class_matrix() is None) == (plain.class_matrix() is None)
        assert both.takes_local_batch == plain.takes_local_batch


@pytest.mark.parametrize("kind", ["vectors", "relations"])
def test_only_the_student_learns_and_the_state_has_no_vectors_of_the_teacher(kind: str) -> None:
    term = DistillationSettings.model_validate({"kind": kind})
    plain = ArcFaceSettings().build(8, 4, 0)
    both = Distillation(Svmax(ArcFaceSettings().build(8, 4, 0)), term, teach(8))
    rows = VECTORS.clone().requires_grad_()
    both(rows, LABELS, INSTANCES).loss.backward()
    learnt = {name for name, parameter in both.named_parameters() if parameter.grad is not None}
    assert learnt == {"objective.objective.matrix"} and not both.taught.requires_grad
    matrix = both.class_matrix()
    own = VECTORS.clone().requires_grad_()
    plain(own, LABELS, INSTANCES).loss.backward()
    assert rows.grad is not None and own.grad is not None and matrix is not None
    torch.testing.assert_close(matrix.parameter.grad, plain.matrix.grad)  # the class rows have the gradient of ArcFace alone
    moved = (rows.grad - own.grad).norm(dim=1) > 1e-6
    assert moved.tolist() == [True, True, True, True, False, True]  # not the row whose image the teacher cannot read
    assert set(both.state_dict()) == {f"objective.objective.{name}" for name in plain.state_dict()}


@settings(deadline=None, max_examples=40)
@given(count=st.integers(1, 9), dimensions=st.integers(2, 7), seed=st.integers(0, 999), tau=st.floats(0.02, 2.0))
def test_a_student_like_its_teacher_has_nothing_to_learn(count: int, dimensions: int, seed: int, tau: float) -> None:
    """A rotated teacher has the same relations; any student has a loss of at least 0, and of at most 2 from vectors."""
    rng = torch.Generator().manual_seed(seed)
    taught = functional.normalize(torch.randn(count, dimensions, generator=rng, dtype=torch.float64))
    taught[torch.rand(count, generator=rng) < 0.2] = 0
    images = torch.randint(count, (count,), generator=rng)
    rotation, _ = torch.linalg.qr(torch.randn(dimensions, dimensions, generator=rng, dtype=torch.float64))
    shown = taught[images]
    assert float(compare_relations(shown @ rotation, shown, images, tau)) == pytest.approx(0, abs=1e-9)
    assert float(compare_vectors(shown, shown)) == pytest.approx(0, abs=1e-9)
    unit = functional.normalize(torch.randn(count, dimensions + 1, generator=rng, dtype=torch.float64)).requires_grad_()
    relations = compare_relations(unit, shown, images, tau)
    relations.backward()
    assert float(relations.detach()) >= -1e-9 and unit.grad is not None and unit.grad.isfinite().all()
    assert -1e-9 <= float(compare_vectors(unit.detach()[:, 1:], shown)) <= 2 + 1e-9


@pytest.mark.parametrize("kind", ["vectors", "relations"])
def test_steps_against_the_gradient_approach_the_teacher(kind: str) -> None:
    taught = teach(8)
    rows = VECTORS.clone().requires_grad_()
    optimizer, losses = torch.optim.SGD([rows], lr=0.5), []
    for _ in range(200):
        unit, shown = functional.normalize(rows), taught[INSTANCES]
        loss = compare_vectors(unit, shown) if kind == "vectors" else compare_relations(unit, shown, INSTANCES, 0.5)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("kind", ["vectors", "relations"])
def test_a_batch_without_anything_to_compare_counts_nothing(kind: str) -> None:
    term = DistillationSettings.model_validate({"kind": kind})
    rows = VECTORS.clone().requires_grad_()
    unread = Distillation(ArcFaceSettings().build(8, 4, 0), term, torch.zeros(7, 8))
    output = unread(rows, LABELS, INSTANCES)
    output.loss.backward()
    assert output.logs["distillation"] == 0 and rows.grad is not None and rows.grad.isfinite().all()
    one = Distillation(ArcFaceSettings().build(8, 4, 0), term, teach(8))
    alone = one(VECTORS, LABELS, torch.full((6,), 3)).logs["distillation"]  # six views of one image
    assert (float(alone) == 0) == (kind == "relations")


def test_a_temperature_goes_with_relations() -> None:
    with pytest.raises(ValueError, match="temperature goes with kind relations, not with vectors"):
        DistillationSettings(kind="vectors", temperature=0.1)
