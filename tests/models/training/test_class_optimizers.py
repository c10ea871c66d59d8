"""The lean optimisers of the class matrix: what they keep, and which rows they move."""

from typing import Any

import pytest
import torch
from torch import nn

from image_copies.models.objectives.settings import ArcFaceSettings
from image_copies.models.training.schedule import build_optimizers
from image_copies.models.training.settings import OptimizerSettings

CLASSES, DIMENSIONS = 2000, 64


@pytest.mark.parametrize(("kind", "floats"), [("adafactor", CLASSES + DIMENSIONS + 1), ("plain_sgd", 0)])
def test_little_is_kept_and_only_rows_with_a_gradient_move(kind: str, floats: int) -> None:
    torch.manual_seed(0)
    head = ArcFaceSettings().build(DIMENSIONS, CLASSES, 0)
    settings = OptimizerSettings.model_validate({"class_kind": kind})
    optimizer = build_optimizers(nn.Linear(1, 1), head, settings)[-1]
    for _ in range(3):
        before = head.matrix.detach().clone()
        head(torch.randn(8, DIMENSIONS), torch.randint(CLASSES, (8,))).loss.backward()
        assert head.matrix.grad is not None
        head.matrix.grad[::2] = 0
        compared = head.matrix.grad.any(dim=1)
        optimizer.step()
        optimizer.zero_grad()
        moved = (head.matrix.detach() != before).any(dim=1)
        assert moved.any() and not (moved & ~compared).any()
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    assert sum(value.numel() for value in kept) == floats


@pytest.mark.parametrize("supported", [True, False])
def test_muon_moves_all_directions_of_a_matrix_alike_and_class_rows_as_adam_does(
    monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    seen, norm = list[torch.dtype](), torch.Tensor.norm

    def record_type(tensor: torch.Tensor, *given: Any, **named: Any) -> Any:
        seen.append(tensor.dtype)
        return norm(tensor, *given, **named)

    monkeypatch.setattr(torch.Tensor, "norm", record_type)
    torch.manual_seed(0)
    rate, rows_rate = 0.01, 0.02
    linear, head = nn.Linear(32, 16, bias=False), ArcFaceSettings().build(DIMENSIONS, 8, 0)
    settings = OptimizerSettings(kind="muon", class_kind="adam", learning_rate=rate, class_learning_rate=rows_rate)
    optimizers = build_optimizers(linear, head, settings)
    matrix, rows = linear.weight.detach().clone(), head.matrix.detach().clone()
    linear.weight.grad, head.matrix.grad = torch.randn(16, 32), torch.randn(8, DIMENSIONS)
    for optimizer in optimizers:
        optimizer.step()
    assert (torch.bfloat16 in seen) is supported  # in Newton-Schulz steps
    values = torch.linalg.svdvals(linear.weight.detach() - matrix)
    assert values.max() / values.min() < 1.6  # those of the gradient: 1 to 6
    torch.testing.assert_close(values.mean().item(), 0.2 * 32**0.5 * rate, rtol=0.2, atol=0)
    torch.testing.assert_close(head.matrix.detach() - rows, -rows_rate * head.matrix.grad.sign(), rtol=1e-3, atol=1e-6)
