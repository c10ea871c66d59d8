"""What processes exchange, with a stand-in for the other process."""

from typing import Any

import pytest
import torch
from torch import Tensor, distributed

from image_copies.models import distributed as together


def test_rows_of_a_step_are_gathered_after_one_exchange_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the numbers is what a GPU waits for: once a step, and not once for each tensor and process."""
    exchanges: list[int] = []

    def all_numbers(into: Tensor, own: Tensor) -> None:
        exchanges.append(int(own))
        into.copy_(torch.tensor([int(own), 1]))

    def all_rows(parts: list[Tensor], own: Tensor) -> None:
        for part in parts:
            part.copy_(own)  # the other process has the same rows, of which one counts

    monkeypatch.setattr(together, "group_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_gather_into_tensor", all_numbers)
    monkeypatch.setattr(distributed, "all_gather", all_rows)
    embeddings, labels = torch.arange(6.0).reshape(3, 2).requires_grad_(), torch.tensor([5, 6, 7])
    rows, classes = together.gather_together(embeddings, labels)
    assert exchanges == [3] and classes.tolist() == [5, 6, 7, 5]
    assert rows.tolist() == [*embeddings.tolist(), embeddings[0].tolist()]
    rows.square().sum().backward()
    expected: Any = 2 * 2 * embeddings.detach()
    assert torch.equal(embeddings.grad, expected)  # type: ignore[arg-type]  # it has one
