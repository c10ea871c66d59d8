"""A network for inference: batch normalisations become part of the convolutions before them, pools of those after them."""

import copy

import torch
from timm.layers.conv2d_same import Conv2dSame
from timm.layers.norm_act import BatchNormAct2d
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from image_copies.augmentations.dataset import normalize_pixels

from ..network.base import ImageDescriptor
from .embedders import SAME_VECTORS

CONVOLUTIONS = (nn.Conv2d, Conv2dSame)  # of exactly these types: others compute their weights
NORMALISATIONS = (nn.BatchNorm2d, BatchNormAct2d)


@torch.inference_mode(False)
@torch.no_grad()
def fold_batch_norms(descriptor: ImageDescriptor, image_size: int) -> ImageDescriptor:
    """Return a copy for inference, on the CPU, whose batch normalisations are folded into the convolutions before them.

    Vectors of drawn pictures must be the same to SAME_VECTORS, or nothing is folded.
    """
    plain = copy.deepcopy(descriptor).cpu().eval()
    if not any(type(module) in NORMALISATIONS for module in plain.modules()):
        return plain
    folded = copy.deepcopy(plain)
    for convolution, name in _find_pairs(folded):
        normalisation = folded.get_submodule(name)
        assert isinstance(normalisation, nn.BatchNorm2d)
        _fold(convolution, normalisation)
        folded.set_submodule(name, _keep_activation(normalisation))
    return folded if _is_same(folded, plain, image_size) else plain


def _is_same(changed: ImageDescriptor, plain: ImageDescriptor, image_size: int) -> bool:
    """Whether vectors of drawn pictures are the same to SAME_VECTORS."""
    pictures = normalize_pixels(draw_pictures(image_size, 2), plain.mean, plain.std)
    return bool((changed(pictures) - plain(pictures)).abs().max() <= SAME_VECTORS)


def _find_pairs(descriptor: ImageDescriptor) -> list[tuple[nn.Conv2d, str]]:
    """Return the convolutions that a normalisation of their channels comes after, with its name, in the order of the layers."""
    pairs = []
    before: nn.Conv2d | None = None
    for name, module in descriptor.named_modules():
        if type(module) in NORMALISATIONS and before is not None:
            assert isinstance(module, nn.BatchNorm2d)
            if module.running_mean is not None and module.num_features == before.out_channels:
                pairs.append((before, name))
        if isinstance(module, nn.Conv2d) and type(module) in CONVOLUTIONS:
            before = module
        elif not any(module.children()):
            before = None
    return pairs


def _fold(convolution: nn.Conv2d, normalisation: nn.BatchNorm2d) -> None:
    """Change a convolution's weights and bias, computed in float64, to those of both."""
    mean = normalisation.running_mean
    variance = normalisation.running_var
    assert mean is not None and variance is not None
    bias, scale, shift = (
        None if value is None else value.double()
        for value in (convolution.bias, normalisation.weight, normalisation.bias)
    )
    fused = fuse_conv_bn_weights(
        convolution.weight.double(), bias, mean.double(), variance.double(), normalisation.eps, scale, shift
    )
    convolution.weight, convolution.bias = (
        nn.Parameter(value.float(), requires_grad=False) for value in fused
    )


@torch.inference_mode(False)
@torch.no_grad()
def merge_pools(descriptor: ImageDescriptor, image_size: int) -> ImageDescriptor:
    """Return a copy with a convolution of 2 × 2 pixels with stride 2 for each mean of 2 × 2 pixels and the 1 × 1 one after it.

    In whole numbers that costs less than the mean. Vectors of drawn pictures must be the same to SAME_VECTORS, or nothing is
    merged: of an odd number of rows the mean may give one more, and what comes next by its name may not take what it gives.
    """
    merged = copy.deepcopy(descriptor)
    before = ""  # the name of the pool before
    for name, module in list(merged.named_modules()):
        if type(module) is nn.AvgPool2d and (module.kernel_size, module.stride) == (2, 2):
            before = name
        elif isinstance(module, nn.Conv2d):
            if before and type(module) is nn.Conv2d and module.kernel_size == (1, 1) and module.groups == 1:
                merged.set_submodule(before, nn.Identity())
                merged.set_submodule(name, _average(module))
            before = ""
    try:
        return merged if _is_same(merged, descriptor, image_size) else descriptor
    except RuntimeError:  # maps of unlike sides
        return descriptor


def _average(convolution: nn.Conv2d) -> nn.Conv2d:
    """Return the convolution of the mean of 2 × 2 pixels that a 1 × 1 convolution is of one."""
    wider = nn.Conv2d(
        convolution.in_channels, convolution.out_channels, 2, 2, bias=convolution.bias is not None
    )
    wider.weight = nn.Parameter((convolution.weight / 4).expand(-1, -1, 2, 2).contiguous(), False)
    wider.bias = convolution.bias
    return wider


def _keep_activation(normalisation: nn.BatchNorm2d) -> nn.Module:
    """Return what timm's normalisation does to its result."""
    if not isinstance(normalisation, BatchNormAct2d):
        return nn.Identity()
    dropout, activation = normalisation.drop, normalisation.act
    assert isinstance(dropout, nn.Module) and isinstance(activation, nn.Module)
    return nn.Sequential(dropout, activation)


def draw_pictures(size: int, count: int) -> Tensor:
    """Draw smooth random pictures uint8 [count, 3, size, size]; noise would give nearly equal vectors.

    Of several, the last one is plain in half of it: small constants decide what such an area gives.
    """
    generator = torch.Generator().manual_seed(size + count)
    coarse = torch.rand(count, 3, 5, 5, generator=generator)
    pictures = (
        (nn.functional.interpolate(coarse, (size, size), mode="bilinear") * 255).round().to(torch.uint8)
    )
    if count > 1:
        pictures[-1, :, : size // 2] = 255
    return pictures
