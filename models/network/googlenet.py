"""GoogLeNet, the trunk of SVMax's experiments, from torchvision: timm has none."""

from collections import OrderedDict
from itertools import takewhile
from typing import Any

from torch import Tensor, nn
from torchvision.models import GoogLeNet_Weights, googlenet

from image_copies.data.errors import UserError
from image_copies.models.network.base import Backbone

CHANNELS = 1024


def build_googlenet(arguments: dict[str, Any], pretrained: bool) -> Backbone:
    """Build GoogLeNet up to its last map of 1,024 channels, with the names of torchvision's weights; it takes no arguments.

    Raises:
        UserError: There are arguments, or the pretrained weights cannot be fetched.
    """
    if arguments:
        raise UserError(f"googlenet takes no model_args, but has {arguments}.")
    try:
        weights = GoogLeNet_Weights.IMAGENET1K_V1 if pretrained else None
        whole = googlenet(weights=weights, aux_logits=pretrained, init_weights=not pretrained)
    except OSError as error:  # URLError, too
        raise UserError(
            f"the weights of 'googlenet' cannot be fetched ({error}). Without a network connection, download torchvision's file "
            "elsewhere and name it (`weights: path/to/file.pth` in the recipe), or train from `weights: none`."
        ) from error
    named = takewhile(lambda child: child[0] != "avgpool", whole.named_children())
    trunk = nn.Sequential(OrderedDict((name, child) for name, child in named if not name.startswith("aux")))
    return Backbone(trunk, _compute_maps, CHANNELS, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))  # as its weights were learnt


def _compute_maps(network: nn.Module, images: Tensor) -> Tensor:
    maps: Tensor = network(images)
    return maps
