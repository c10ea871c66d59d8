"""What decays: the network and a linear classifier, neither GeM's exponent nor a class matrix nor β."""

import pytest

from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.objectives.settings import AnyObjectiveSettings, ArcFaceSettings, MultiGrainSettings, SoftmaxSettings
from image_copies.models.training.schedule import build_optimizers
from image_copies.models.training.settings import OptimizerSettings

DECAY = 0.25


def decays(objective: AnyObjectiveSettings, weight_decay: float = DECAY) -> dict[str, float]:
    """Weight decay by parameter's name."""
    descriptor = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8))
    learnt = objective.build(8, 5, seed=0)
    (optimizer,) = build_optimizers(descriptor, learnt, OptimizerSettings(kind="sgd", weight_decay=weight_decay))
    names = {id(parameter): name for part in (descriptor, learnt) for name, parameter in part.named_parameters()}
    return {names[id(p)]: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}


@pytest.mark.parametrize("objective", [SoftmaxSettings(), MultiGrainSettings()])
def test_the_classifier_decays_and_the_pooling_exponent_does_not(objective: AnyObjectiveSettings) -> None:
    found = decays(objective)
    classifier = [name for name in found if "classifier" in name]
    assert len(classifier) == 2 and all(found[name] == DECAY for name in classifier)
    assert found["projection.weight"] == DECAY and found["pooling.exponent"] == 0.0
    assert {name: decay for name, decay in found.items() if decay == 0.0}.keys() <= {"pooling.exponent", "margin.beta"}


def test_a_class_matrix_does_not_decay() -> None:
    found = decays(ArcFaceSettings())
    assert [name for name, decay in found.items() if decay == 0.0] == ["pooling.exponent", "matrix"]


def test_without_weight_decay_states_saved_before_go_on() -> None:
    """They know one group of the descriptor's parameters and one of the objective's."""
    descriptor = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8))
    learnt = ArcFaceSettings().build(8, 5, seed=0)
    (optimizer,) = build_optimizers(descriptor, learnt, OptimizerSettings())
    assert [len(group["params"]) for group in optimizer.param_groups] == [len(list(descriptor.parameters())), 1]
