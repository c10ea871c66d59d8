"""GeM's exponent: replaced for good, or for a while."""

import pytest
import torch

from image_copies.models.network.layers import GeM


def test_an_exponent_is_replaced_for_a_while_or_for_good() -> None:
    pooling, maps = GeM(3.0), torch.rand(2, 4, 3, 3)
    before = pooling(maps).detach()
    pooling.exponent.grad = torch.tensor(0.5)
    with pytest.raises(KeyError), pooling.set_exponent_temporarily(7.0):
        assert not torch.equal(pooling(maps), before)
        pooling.exponent.requires_grad_(False)
        pooling.exponent.grad = None
        raise KeyError
    assert torch.equal(pooling(maps), before)
    assert pooling.exponent.requires_grad and pooling.exponent.grad == 0.5
    pooling = GeM(3.0)
    pooling.set_exponent(1.0)
    pooling.set_exponent(None)
    maps = torch.rand(2, 4, 3, 3)
    torch.testing.assert_close(pooling(maps), maps.mean(dim=(2, 3)))
