"""The moving average of weights."""

import pytest
import torch
from torch import nn

from image_copies.models.training.averaging import WeightAverage


def test_the_average_equals_its_formula_and_goes_on_from_its_state() -> None:
    torch.manual_seed(0)
    linear, norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
    network = nn.Sequential(linear, norm)
    average, literal = WeightAverage(network, 0.5), linear.weight.detach().clone()
    for step in range(1, 7):
        with torch.no_grad():
            linear.weight.add_(torch.randn(2, 3))
        network(torch.randn(4, 3))  # moves the statistics
        average.update()
        share = min(0.5, (1 + step) / (10 + step))
        literal = share * literal + (1 - share) * linear.weight.detach()
        if step == 3:
            saved, average = average.state(), WeightAverage(network, 0.5)
            average.restore(saved)
    assert torch.allclose(average.weights["0.weight"], literal)
    assert average.weights["1.num_batches_tracked"] == 6
    assert not torch.equal(average.weights["1.running_mean"], norm.get_buffer("running_mean"))
    own = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(KeyError), average.applied():
        assert torch.equal(linear.weight, average.weights["0.weight"])
        raise KeyError
    assert all(torch.equal(own[name], value) for name, value in network.state_dict().items())
    average.apply()
    assert torch.equal(linear.weight, average.weights["0.weight"])
