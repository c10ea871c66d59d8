"""The chunked softmax against the plain one: loss and gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

from image_copies.models.objectives import arcface
from image_copies.models.objectives.arcface import ROWS_PER_SEED, _draw_prototypes, angular_margin, keeps_weights
from image_copies.models.objectives.settings import ArcFaceSettings


def plain_loss(embeddings: torch.Tensor, matrix: torch.Tensor, labels: torch.Tensor, margin: float, scale: float) -> torch.Tensor:
    """All logits at once, by acos and cos."""
    cosine = embeddings @ functional.normalize(matrix).T
    rows = torch.arange(len(labels))
    angle = torch.acos(cosine[rows, labels].clamp(-1 + 1e-7, 1 - 1e-7))
    target = torch.where(angle + margin <= math.pi, torch.cos(angle + margin), torch.cos(angle) - margin * math.sin(margin))
    logits = cosine.clone()
    logits[rows, labels] = target
    return functional.cross_entropy(scale * logits, labels)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 12), st.integers(1, 50), st.floats(0, 0.6))
def test_loss_and_gradients_equal_the_plain_head(seed: int, classes: int, batch: int, chunk: int, margin: float) -> None:
    torch.manual_seed(seed)
    head = ArcFaceSettings(margin=margin, scale=16, chunk=chunk).build(8, classes, 0)
    with torch.no_grad():
        head.matrix.mul_(torch.rand(classes, 1) + 0.5)
    labels = torch.randint(classes, (batch,))
    raw = torch.randn(batch, 8)
    results: list[tuple[torch.Tensor, ...]] = []
    for lean in (True, False):
        leaf = raw.clone().requires_grad_()
        head.matrix.grad = None
        embeddings = functional.normalize(leaf)
        loss = head(embeddings, labels).loss if lean else plain_loss(embeddings, head.matrix, labels, margin, 16)
        loss.backward()
        assert leaf.grad is not None and isinstance(head.matrix.grad, torch.Tensor)
        results.append((loss.detach().double(), leaf.grad.double(), head.matrix.grad.double()))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_fixed_rows_give_the_same_gradient_and_the_margin_is_monotone() -> None:
    head = ArcFaceSettings(chunk=7).build(8, 20, 1)
    embeddings, labels = torch.randn(6, 8, requires_grad=True), torch.arange(6)
    (learning,) = torch.autograd.grad(head(embeddings, labels).loss, [embeddings])
    head.matrix.requires_grad_(False)
    (fixed,) = torch.autograd.grad(head(embeddings, labels).loss, [embeddings])
    torch.testing.assert_close(fixed, learning)
    assert head.matrix.grad is None
    cosine = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    values = angular_margin(cosine, 0.4)
    assert (values.diff() > -1e-9).all()
    inside = cosine > math.cos(math.pi - 0.4) + 1e-3
    torch.testing.assert_close(values[inside], torch.cos(torch.acos(cosine[inside]) + 0.4), atol=1e-3, rtol=0)


def test_prototypes_can_be_replaced_and_embeddings_of_any_length_count_alike() -> None:
    head = ArcFaceSettings().build(4, 3, 0)
    head.class_matrix().set_prototypes(torch.arange(3), torch.eye(4)[:3])
    assert float(head(torch.eye(4)[:3], torch.arange(3)).logs["cosine_to_own_class"]) == pytest.approx(1)
    head, embeddings, labels = ArcFaceSettings().build(8, 20, 1), torch.randn(6, 8), torch.arange(6)
    torch.testing.assert_close(head(embeddings, labels).loss, head(embeddings * 7, labels).loss)
    with pytest.raises(ValueError, match="rounded_rows needs a scale of at most 64"):
        ArcFaceSettings(rounded_rows=True, scale=65)


@pytest.mark.parametrize(
    ("half", "rounded", "loss_scale", "loss_error", "gradient_error"),
    [
        (torch.bfloat16, False, 1.0, 1e-3, 2e-2),
        (torch.bfloat16, True, 1.0, 1e-3, 2e-2),
        (torch.float16, False, 1.0, 1e-4, 2e-3),
        (torch.float16, False, 2.0**20, 1e-4, 2e-3),
    ],
)  # bfloat16 keeps 8 bits of each factor, float16 11: the errors of many classes average out
def test_half_precision_products_stay_near_float32(
    half: torch.dtype, rounded: bool, loss_scale: float, loss_error: float, gradient_error: float
) -> None:
    torch.manual_seed(0)
    head = ArcFaceSettings(chunk=128, rounded_rows=rounded).build(64, 500, 1)
    head.matrix.data *= 0.5 + torch.rand(500, 1)  # rows of any length
    embeddings, labels = torch.randn(8, 64, requires_grad=True), torch.randint(500, (8,))
    exact = head(embeddings, labels).loss
    to_exact = torch.autograd.grad(exact, [embeddings, head.matrix])
    with torch.autocast("cpu", half):
        near = head(embeddings, labels).loss
    to_near = torch.autograd.grad(near * loss_scale, [embeddings, head.matrix])
    assert near.dtype == torch.float32 and near != exact
    assert abs(float(near.detach() / exact.detach()) - 1) < loss_error
    for ours, theirs in zip(to_near, to_exact, strict=True):
        assert float((ours / loss_scale - theirs).norm() / theirs.norm()) < gradient_error
    along = (to_near[1] * head.matrix).sum(dim=1).norm() / (to_near[1].norm(dim=1) * head.matrix.norm(dim=1)).norm()
    assert float(along.detach()) < 2e-3  # a row's length does not matter


def test_kept_weights_are_those_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    head, labels, counts = ArcFaceSettings(chunk=128, rounded_rows=True).build(32, 500, 1), torch.arange(8) * 50, list[int]()
    embeddings = torch.randn(8, 32, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def step() -> list[torch.Tensor]:
        saved: list[torch.Tensor] = []

        def save(tensor: torch.Tensor) -> torch.Tensor:
            saved.append(tensor)
            return tensor

        with torch.autocast("cpu", torch.bfloat16), saved_tensors_hooks(save, lambda tensor: tensor):
            loss = head(embeddings, labels).loss
        counts.append(sum(one.numel() for one in saved if one.dtype == torch.bfloat16))
        return [loss.detach(), *torch.autograd.grad(loss, [embeddings, head.matrix])]

    kept = step()
    monkeypatch.setattr(arcface, "keeps_weights", lambda *_: False)
    assert all(torch.equal(*pair) for pair in zip(kept, step(), strict=True))
    assert counts == [500 * (32 + 8), 500 * 32]
    assert keeps_weights(512, 256) and not keeps_weights(513, 256)


def test_the_first_matrix_is_that_of_the_seed_whichever_rows_a_process_holds() -> None:
    assert torch.equal(ArcFaceSettings().build(4, 10, 3).matrix, ArcFaceSettings().build(4, 10, 3).matrix)
    assert not torch.equal(ArcFaceSettings().build(4, 10, 3).matrix, ArcFaceSettings().build(4, 10, 4).matrix)
    classes = ROWS_PER_SEED + 5
    whole = _draw_prototypes(range(classes), classes, 4, seed=0)
    assert whole.shape == (classes, 4) and torch.allclose(whole.norm(dim=1), torch.ones(classes))
    for rows in (range(3, 9), range(ROWS_PER_SEED - 2, classes), range(ROWS_PER_SEED, classes)):
        assert torch.equal(_draw_prototypes(rows, classes, 4, seed=0), whole[rows.start : rows.stop])


def test_a_chunk_is_as_large_as_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the card's whole memory, whatever is free: a resumed training sums in the same order."""

    class Card:
        total_memory = 80 * 2**30

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Card)
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    chunk = arcface.choose_chunk(16_384, 64, 256, gpu)
    assert chunk == 524_288 and 4 * chunk * (3 * 64 + 2 * 256) <= Card.total_memory / 32
    assert arcface.choose_chunk(2_000_000, 64, 256, gpu) == 2_000_000
    assert arcface.choose_chunk(16_384, 64, 256, cpu) == 16_384
    Card.total_memory = 2**20
    assert arcface.choose_chunk(16_384, 64, 256, gpu) == 16_384
