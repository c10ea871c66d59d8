"""A backbone that starts from weights learns apart from the rest."""

import torch

from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.objectives.settings import ArcFaceSettings
from image_copies.models.training.schedule import build_optimizers
from image_copies.models.training.settings import OptimizerSettings

SETTINGS = DescriptorSettings(backbone="test_efficientnet", dimensions=16)


def test_the_backbone_has_a_rate_of_its_own() -> None:
    descriptor, objective = Descriptor(SETTINGS), ArcFaceSettings().build(16, 5, seed=0)
    settings = OptimizerSettings(learning_rate=1e-2, backbone_learning_rate=1e-4, class_learning_rate=1e-1, weight_decay=0.1)
    (optimizer,) = build_optimizers(descriptor, objective, settings, factor=0.5)
    rates = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    assert all(rates[id(parameter)] == (5e-5, 0.1) for parameter in descriptor.backbone.parameters())
    assert rates[id(descriptor.projection.weight)] == (5e-3, 0.1) and rates[id(descriptor.pooling.exponent)] == (5e-3, 0.0)
    assert all(rates[id(parameter)][0] == 5e-2 for parameter in objective.parameters())
    assert len(rates) == len([*descriptor.parameters(), *objective.parameters()])


def test_frozen_statistics_stay_while_it_learns() -> None:
    images = torch.rand(4, 3, 32, 32)
    for frozen in (True, None):
        descriptor = Descriptor(SETTINGS.model_copy(update={"frozen_statistics": frozen})).train()
        before = {name: value.clone() for name, value in descriptor.named_buffers() if "running" in name}
        descriptor(images, raw=True).sum().backward()
        changed = [
            name for name, value in descriptor.named_buffers() if "running" in name and not torch.equal(value, before[name])
        ]
        assert (not changed) == bool(frozen) and descriptor.training
        assert all(parameter.grad is not None for parameter in descriptor.backbone.parameters())
        descriptor.eval()
        assert not any(module.training for module in descriptor.modules())
