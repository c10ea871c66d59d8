"""The chunked softmax against the plain one: loss and gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from models.objectives.arcface import ArcFace, angular_margin
from models.settings import ArcFaceSettings


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
    head = ArcFace(8, classes, ArcFaceSettings(margin=margin, scale=16, chunk=chunk))
    with torch.no_grad():
        head.matrix.mul_(torch.rand(classes, 1) + 0.5)
    labels = torch.randint(classes, (batch,))
    raw = torch.randn(batch, 8)
    results = []
    for lean in (True, False):
        leaf = raw.clone().requires_grad_()
        head.matrix.grad = None
        embeddings = functional.normalize(leaf)
        loss = head(embeddings, labels).loss if lean else plain_loss(embeddings, head.matrix, labels, margin, 16)
        loss.backward()
        results.append((loss.detach().double(), leaf.grad.double(), head.matrix.grad.double()))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_margin_is_monotone_past_pi_minus_m() -> None:
    cosine = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    values = angular_margin(cosine, 0.4)
    assert (values.diff() > -1e-9).all()
    inside = cosine > math.cos(math.pi - 0.4) + 1e-3
    torch.testing.assert_close(values[inside], torch.cos(torch.acos(cosine[inside]) + 0.4), atol=1e-3, rtol=0)


def test_set_classes_replaces_the_matrix() -> None:
    head = ArcFace(4, 3, ArcFaceSettings())
    head.set_classes(torch.eye(4)[:3])
    assert head(torch.eye(4)[:3], torch.arange(3)).logs["cosine_to_own_class"] == pytest.approx(1)
