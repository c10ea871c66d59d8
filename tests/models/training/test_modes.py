"""Whether a start embeds as it learns."""

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training.modes import LEAST_AGREEMENT, measure_agreement


def test_weights_with_their_statistics_agree_and_folded_ones_do_not() -> None:
    torch.manual_seed(0)
    descriptor, images = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16)), torch.randn(32, 3, 32, 32)
    descriptor.train()
    with torch.no_grad():
        for _ in range(60):
            descriptor(images)
    before = {name: value.clone() for name, value in descriptor.state_dict().items()}
    random = torch.get_rng_state()
    assert measure_agreement(descriptor, images) > 0.9
    assert all(torch.equal(before[name], value) for name, value in descriptor.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random) and descriptor.training
    for module in descriptor.modules():
        if isinstance(module, _BatchNorm):
            module.get_buffer("running_mean").fill_(5.0)  # far from what its maps hold
    assert measure_agreement(descriptor, images) < LEAST_AGREEMENT
    frozen = Descriptor(descriptor.settings.model_copy(update={"frozen_statistics": True}))
    frozen.load_state_dict(descriptor.state_dict())
    assert measure_agreement(frozen, images) > 0.99


def test_domains_agree_as_well() -> None:
    torch.manual_seed(0)
    settings = DescriptorSettings(backbone="test_nfnet", dimensions=16, domains="split")  # without batch statistics
    assert measure_agreement(Descriptor(settings), torch.randn(4, 3, 32, 32)) > 0.99
