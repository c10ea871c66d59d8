"""Every objective against a slow literal rewriting of its formula."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from image_copies.data.errors import UserError
from image_copies.data.kinds import OBJECTIVES, OfKind
from image_copies.models.objectives.settings import ObjectiveSettings, PairwiseSettings
from image_copies.studies.ideal.domains import SPLIT
from image_copies.studies.ideal.settings import MultiSimilaritySettings
from image_copies.studies.multigrain.objective import _compute_class_gradient_share, negative_weights
from image_copies.studies.multigrain.settings import MarginSettings, MultiGrainSettings
from image_copies.studies.svmax.settings import (
    AngularSettings,
    ContrastiveSettings,
    InfoNceSettings,
    NPairSettings,
    TripletSettings,
)

ALL: list[ObjectiveSettings] = [settings() for settings in OfKind(OBJECTIVES, "").list_settings()]  # type: ignore[misc]


@pytest.fixture
def vectors() -> Tensor:
    return torch.randn(12, 8, generator=torch.Generator().manual_seed(1)) * 3


LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 5])
INSTANCES = torch.tensor([0, 0, 1, 2, 2, 3, 3, 4, 5, 6, 6, 7])


def pairs(labels: Tensor) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(labels)) for j in range(len(labels)) if i != j and labels[i] == labels[j]]


def others(labels: Tensor, i: int) -> list[int]:
    return [j for j in range(len(labels)) if labels[j] != labels[i]]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def contrastive(x: Tensor, labels: Tensor) -> float:
    positive = [float((x[i] - x[j]).norm()) for i, j in pairs(labels)]
    negative = [max(0.0, 1 - float((x[i] - x[j]).norm())) for i in range(len(x)) for j in others(labels, i)]
    return mean(positive) + mean(negative)


def violations(x: Tensor, labels: Tensor) -> list[float]:
    values = [float((x[a] - x[p]).norm() - (x[a] - x[n]).norm()) + 0.2 for a, p in pairs(labels) for n in others(labels, a)]
    return [value for value in values if value > 0]


def triplet(x: Tensor, labels: Tensor) -> float:
    return mean(violations(x, labels))


def summed_triplet(x: Tensor, labels: Tensor) -> float:
    return sum(violations(x, labels))


def multi_similarity(x: Tensor, labels: Tensor) -> float:
    values = []
    for i in range(len(x)):
        same = [float(x[i] @ x[j]) for a, j in pairs(labels) if a == i]
        different_ones = [float(x[i] @ x[j]) for j in others(labels, i)]
        positive = sum(math.exp(-2 * (s - 0.5)) for s in same if s < max(different_ones) + 0.1)
        negative = sum(math.exp(50 * (s - 0.5)) for s in different_ones if same and s > min(same) - 0.1)
        values.append(math.log1p(positive) / 2 + math.log1p(negative) / 50)
    return mean(values)


def npair(x: Tensor, labels: Tensor) -> float:
    values = []
    for a, p in pairs(labels):
        own = math.exp(float(x[a] @ x[p]))
        values.append(-math.log(own / (own + sum(math.exp(float(x[a] @ x[n])) for n in others(labels, a)))))
    return mean(values)


def infonce(x: Tensor, labels: Tensor) -> float:
    return npair(x / math.sqrt(0.05), labels)


def angular(x: Tensor, labels: Tensor) -> float:
    return mean(
        [
            math.log1p(sum(math.exp(4 * float((x[a] + x[p]) @ x[n]) - 4 * float(x[a] @ x[p])) for n in others(labels, a)))
            for a, p in pairs(labels)
        ]
    )


@pytest.mark.parametrize(
    ("settings", "literal"),
    [
        (ContrastiveSettings(), contrastive),
        (TripletSettings(), triplet),
        (TripletSettings(reduction="sum"), summed_triplet),
        (MultiSimilaritySettings(), multi_similarity),
        (NPairSettings(), npair),
        (InfoNceSettings(), infonce),
        (AngularSettings(), angular),
    ],
)
def test_pair_objectives_equal_their_formulas(
    settings: PairwiseSettings, literal: Callable[[Tensor, Tensor], float], vectors: Tensor
) -> None:
    loss = settings.build(8, 6, 0)(vectors, LABELS, INSTANCES).loss
    assert float(loss) == pytest.approx(literal(functional.normalize(vectors.double()), LABELS), rel=1e-4)


def test_margin_loss_equals_its_formula_with_two_classes_of_which_one_negative_can_be_drawn() -> None:
    vectors = torch.randn(3, 5, generator=torch.Generator().manual_seed(2))
    labels = torch.tensor([0, 0, 1])
    x = functional.normalize(vectors.double())
    terms = [max(0.0, 0.2 + float((x[i] - x[j]).norm()) - 1.2) for i, j in ((0, 1), (1, 0))]
    terms += [max(0.0, 0.2 - float((x[i] - x[2]).norm()) + 1.2) for i in (0, 1)]
    objective = MarginSettings().build(8, 6, 0)
    loss = objective(vectors, labels).loss
    assert loss.item() == pytest.approx(sum(terms) / 4, rel=1e-5)
    loss.backward()
    signs = [(term > 0) * sign for term, sign in zip(terms, (-1, -1, 1, 1), strict=True)]
    assert objective.beta.grad is not None and 1 in signs and -1 in signs
    assert objective.beta.grad.item() == pytest.approx(sum(signs) / 4)


def test_margin_loss_of_a_batch_of_one_class_is_that_of_its_positives(vectors: Tensor) -> None:
    x = functional.normalize(vectors[:3].double())
    terms = [max(0.0, 0.2 + float((x[i] - x[j]).norm()) - 1.2) for i in range(3) for j in range(3) if i != j]
    assert MarginSettings().build(8, 6, 0)(vectors[:3], torch.zeros(3).long()).loss.item() == pytest.approx(mean(terms), rel=1e-5)


def test_margin_loss_is_its_expectation_over_the_drawn_negatives_on_average(vectors: Tensor) -> None:
    x, objective = functional.normalize(vectors.double()), MarginSettings(cutoff=0.9, farthest=None).build(8, 6, 0)

    def log_q(z: float) -> float:
        return 6 * math.log(z) + 2.5 * math.log(1 - z * z / 4)

    expected = []
    for a, p in pairs(LABELS):
        expected.append(max(0.0, 0.2 + float((x[a] - x[p]).norm()) - 1.2))
        distances = [float((x[a] - x[n]).norm()) for n in others(LABELS, a)]
        weights = [math.exp(-log_q(max(z, 0.9))) for z in distances]
        expected.append(sum(w * max(0.0, 0.2 - z + 1.2) for w, z in zip(weights, distances, strict=True)) / sum(weights))
    drawn = torch.tensor([float(objective(vectors, LABELS).loss.detach()) for _ in range(400)])
    assert abs(float(drawn.mean()) - mean(expected)) < 5 * float(drawn.std()) / 400**0.5
    assert float(drawn.std()) > 0


def test_domains_are_compared_within_themselves_only(vectors: Tensor) -> None:
    """IDEAL, equation 2: the sum over the domains of the loss written out, each on its own vectors."""
    domains = torch.stack([vectors, 2 * vectors.flip(1), vectors.roll(3, 0), -vectors[:, [1, 0, 3, 2, 5, 4, 7, 6]] + 1])
    for settings, literal in ((ContrastiveSettings(), contrastive), (MultiSimilaritySettings(), multi_similarity)):
        expected = sum(literal(functional.normalize(domain.double()), LABELS) for domain in domains)
        loss = SPLIT.sum_losses(settings.build(8, 6, 0), domains, LABELS, INSTANCES).loss
        assert float(loss) == pytest.approx(expected, rel=1e-4)


def test_mining_leaves_out_pairs_that_are_easy(vectors: Tensor) -> None:
    """Two tight classes far apart: no pair is hard, where without mining every one counts."""
    tight = torch.tensor([[1.0, 0.0], [1.0, 0.01], [-1.0, 0.0], [-1.0, 0.01]], requires_grad=True)
    labels = torch.tensor([0, 0, 1, 1])
    mined = MultiSimilaritySettings().build(8, 6, 0)(tight, labels).loss
    mined.backward()
    assert mined.item() == 0 and tight.grad is not None and not tight.grad.any()
    assert MultiSimilaritySettings(mining=None).build(8, 6, 0)(tight, labels).loss.item() > 0.1
    some, paired = vectors[:8], LABELS[:8]  # every class has a positive pair: no anchor is left out for want of one
    every = MultiSimilaritySettings(mining=None).build(8, 6, 0)(some, paired).loss.item()
    assert MultiSimilaritySettings(mining=2.0).build(8, 6, 0)(some, paired).loss.item() == pytest.approx(every, rel=1e-5)


def different(labels: Tensor) -> Tensor:
    return labels[:, None] != labels[None]


def weights_by(settings: MarginSettings, distances: Tensor, others: Tensor, dimensions: int) -> Tensor:
    caps = {"cutoff": settings.cutoff, "farthest": settings.farthest}
    return negative_weights(distances, others, dimensions, **caps)


def test_negatives_weigh_by_density_and_where_all_are_far_alike() -> None:
    z, d = torch.tensor([[0.0, 0.7, 1.0, 1.3]]), 6
    labels = torch.tensor([0, 1, 2, 3])
    uncapped = MarginSettings(cutoff=None, farthest=None)
    weights = weights_by(uncapped, z.expand(4, 4), different(labels), d)[0]

    def q(z: float) -> float:
        return float(z ** (d - 2) * (1 - z * z / 4) ** ((d - 3) / 2))

    expected = torch.tensor([0.0, 1 / q(0.7), 1 / q(1.0), 1 / q(1.3)])
    assert torch.allclose(weights / weights.sum(), expected / expected.sum(), atol=1e-5)
    capped = weights_by(MarginSettings(cutoff=1.0, farthest=None), z.expand(4, 4), different(labels), d)[0]
    assert torch.allclose(capped[1:], torch.tensor([1.0, 1.0, q(1.0) / q(1.3)]), atol=1e-5)
    assert weights_by(MarginSettings(), z.expand(4, 4), different(labels), 4096).isfinite().all()
    distances = torch.tensor([[0.0, 0.3, 1.5, 1.9]]).expand(4, 4)
    weights = weights_by(MarginSettings(), distances, different(torch.tensor([0, 0, 1, 2])), 64)[0]
    assert weights.tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("dimensions", [2048, 128])
def test_near_negatives_weigh_as_one_at_half_and_far_ones_nothing(dimensions: int) -> None:
    """The defaults of Wu et al., which MultiGrain takes (section 4.1)."""
    z = torch.tensor([[0.0, 0.2, 0.5, 0.502, 1.4, 1.45]]).expand(6, 6)
    weights = weights_by(MarginSettings(), z, different(torch.arange(6)), dimensions)[0]
    assert weights[:3].tolist() == [0.0, 1.0, 1.0] and 0 < weights[3] < 1 and weights[5] == 0


def test_negatives_come_from_the_anchors_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """MultiGrain, section 4.1: sampling is done independently on each GPU. The second process has the same vectors nearer."""
    torch.manual_seed(1)
    first, second = torch.randn(4, 8), torch.randn(4, 8)
    labels = torch.tensor([0, 0, 1, 1])
    parts = {4: torch.cat([first, second]), 0: torch.cat([labels, labels + 2]), 1: torch.tensor([0] * 4 + [1] * 4)}
    monkeypatch.setattr("image_copies.studies.multigrain.objective.gather_together", lambda *_: (parts[4], parts[1], parts[0]))
    seen: list[Tensor] = []

    def watched(distances: Tensor, others: Tensor, *rest: Any, **caps: Any) -> Tensor:
        seen.append(others)
        return negative_weights(distances, others, *rest, **caps)

    monkeypatch.setattr("image_copies.studies.multigrain.objective.negative_weights", watched)
    MarginSettings().build(8, 6, 0)(first, labels)
    inside = torch.block_diag(torch.ones(4, 4), torch.ones(4, 4)).bool()
    assert not (seen[0] & ~inside).any() and (seen[0] == (inside & different(parts[0]))).all()


def test_beta_learns_and_a_resumed_margin_loss_draws_the_same(vectors: Tensor) -> None:
    whole, first = MarginSettings().build(8, 6, 3), MarginSettings().build(8, 6, 3)
    losses = [whole(vectors, LABELS).loss.item() for _ in range(4)]
    _ = [first(vectors, LABELS) for _ in range(2)]
    resumed = MarginSettings().build(8, 6, 3)
    resumed.load_state_dict(first.state_dict())
    assert [resumed(vectors, LABELS).loss.item() for _ in range(2)] == losses[2:]
    assert len(set(losses)) > 1
    whole(vectors, LABELS).loss.backward()
    assert whole.beta.grad is not None and whole.parameter_rates() == {"beta": 0.1}


def test_multigrain_joins_its_two_losses_by_its_weight(vectors: Tensor) -> None:
    for weight in (0.0, 0.3, 1.0):
        joint = MultiGrainSettings(weight=weight).build(8, 6, 5)
        assert (joint.softmax is None) == (weight == 0)
        linear = joint.softmax.classifier if joint.softmax else torch.nn.Linear(8, 6)
        of_rows = zip((vectors @ linear.weight.T + linear.bias).tolist(), LABELS.tolist(), strict=True)
        classes = mean([math.log(sum(math.exp(value) for value in row)) - row[label] for row, label in of_rows])
        copies = MarginSettings().build(8, 6, 5)(vectors, INSTANCES).loss.item()
        assert joint(vectors, LABELS, INSTANCES).loss.item() == pytest.approx(weight * classes + (1 - weight) * copies, rel=1e-5)
        assert set(joint.parameter_rates()) <= {name for name, _ in joint.named_parameters()}
    rows = torch.ones(2, 3, requires_grad=True)
    assert float(_compute_class_gradient_share(0 * rows.sum(), 0 * rows.sum(), rows)) == 0.5


def test_multigrain_logs_the_share_of_the_classes_in_the_gradient(vectors: Tensor) -> None:
    """‖g_class‖ / (‖g_class‖ + ‖g_copies‖) of the weighted terms, in the batches whose figures are measured."""
    joint, rows = MultiGrainSettings(weight=0.3).build(8, 6, 5), vectors.clone().requires_grad_()
    assert joint.softmax is not None
    output = joint(rows, LABELS, INSTANCES)
    of_copies = 0.7 * MarginSettings().build(8, 6, 5)(rows, INSTANCES).loss
    norms = [
        torch.autograd.grad(loss, rows)[0].norm().item()
        for loss in (0.3 * joint.softmax(rows, LABELS, INSTANCES).loss, of_copies)
    ]
    assert float(output.logs["class_gradient"]) == pytest.approx(norms[0] / sum(norms), rel=1e-5)
    output.loss.backward()
    assert rows.grad is not None and rows.grad.isfinite().all()
    joint.measures = False
    assert "class_gradient" not in joint(rows, LABELS, INSTANCES).logs
    assert "class_gradient" not in MultiGrainSettings(weight=1.0).build(8, 6, 5)(rows, LABELS, INSTANCES).logs


@pytest.mark.parametrize("settings", ALL, ids=lambda settings: settings.kind)
def test_every_objective_is_float32_under_autocast_and_has_finite_gradients(settings: ObjectiveSettings, vectors: Tensor) -> None:
    objective = settings.build(8, 6, 0)
    for rows in (vectors, torch.ones(12, 8)):
        rows = rows.to(torch.bfloat16).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            loss = objective(rows, LABELS, INSTANCES).loss
        loss.backward()
        assert loss.dtype == torch.float32 and rows.grad is not None and rows.grad.isfinite().all()


@pytest.mark.parametrize("settings", [s for s in ALL if s.kind not in ("arcface", "softmax")], ids=lambda settings: settings.kind)
def test_a_batch_without_a_positive_pair_is_an_error(settings: ObjectiveSettings, vectors: Tensor) -> None:
    with pytest.raises(UserError, match="PK batches"):
        settings.build(8, 12, 0)(vectors, torch.arange(12), torch.arange(12))
