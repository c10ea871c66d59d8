"""timm's classifiers as descriptors with a linear classifier, to choose p* for (MultiGrain, ICLR submission, appendix G)."""

from typing import Any

import timm
import torch
from torch import nn

from image_copies.data.errors import UserError
from image_copies.models.network.backbones import check_backbone
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.layouts import rename_efficientnet
from image_copies.models.network.settings import DescriptorSettings, weights_path
from image_copies.models.network.weights_file import read_weights_file, state_of

LARGEST_DEVIATION = 1e-3  # of the logits at p 1 from timm's own, as a share of their largest
DEFAULT_SIDE = 224  # pixels, where timm does not say what a model was trained at


def build_off_the_shelf(name: str, weights: str) -> tuple[Descriptor, nn.Linear, int]:
    """Build a descriptor without projection from one of timm's classifiers; at p 1 its logits are the classifier's own.

    Its weights are "pretrained", "none" (random), or a file with the whole model's.

    Returns:
        The network with GeM at p 1, its linear classifier of raw embeddings, and the side in pixels that it was trained at.

    Raises:
        UserError: timm has no such model, its weights cannot be read, or it does not average the feature maps of a last layer
            without negative values before one linear layer.
    """
    check_backbone(name)
    path, _ = weights_path(weights)
    if path is None and weights not in ("pretrained", "none"):
        raise UserError(f"--weights {weights}: give pretrained, none, or a .pth, .pt or .safetensors file.")
    state = {} if path is None else state_of(read_weights_file(path), path)
    try:
        whole: Any = timm.create_model(name, pretrained=weights == "pretrained")
    except Exception as error:  # the hub's client raises many kinds of errors
        raise UserError(
            f"the weights of {name!r} cannot be fetched ({type(error).__name__}: {error}). Give a file: --weights FILE."
        ) from error
    published: dict[str, Any] = getattr(whole, "pretrained_cfg", None) or {}
    if path is not None:
        state = rename_efficientnet(state, whole.state_dict())
        last = state.get(f"{published.get('classifier')}.weight")
        whole.reset_classifier(whole.num_classes if last is None else len(last))
        try:
            whole.load_state_dict(state)
        except RuntimeError as error:
            raise UserError(f"{path} does not hold the whole classifier {name!r}: {error}") from error
    descriptor = Descriptor(
        DescriptorSettings(backbone=name, pooling_exponent=1.0, train_pooling_exponent=False, dimensions=None)
    )
    descriptor.backbone.load_state_dict(whole.state_dict(), strict=False)
    side = int(published.get("input_size", (3, DEFAULT_SIDE, DEFAULT_SIDE))[-1])
    classifier = whole.get_classifier()
    if not isinstance(classifier, nn.Linear) or classifier.bias is None:
        raise UserError(f"{name!r} does not end in one linear layer with a bias: its pooling cannot be exchanged.")
    _require_equal_logits(name, whole.eval(), descriptor.eval(), classifier, side)
    return descriptor, classifier, side


@torch.no_grad()
def _require_equal_logits(name: str, whole: nn.Module, descriptor: Descriptor, classifier: nn.Linear, side: int) -> None:
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    expected = whole(images)
    embeddings = descriptor(images, raw=True)
    if embeddings.shape[1] == classifier.in_features:
        deviation = float((classifier(embeddings) - expected).abs().max() / expected.abs().max())
        if deviation <= LARGEST_DEVIATION:
            return
    raise UserError(
        f"{name!r} is not average pooling and a linear layer: GeM at p 1 does not give its own results, because its feature maps "
        "have negative values or further layers follow the pooling. Take one that ends in ReLU, such as resnet50 or senet154."
    )
