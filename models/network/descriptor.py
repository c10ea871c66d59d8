"""The trained descriptor: backbone → GeM → linear layer → L2 normalisation (ISC2021 paper, 2.2)."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from image_copies.data.errors import UserError
from image_copies.data.kinds import PARTS, load_kind

from ..device import report_lack_of_memory
from . import backbones, base, start
from .settings import DescriptorSettings

EPSILON = 1e-6  # ε, the lower bound of activations


class GeM(nn.Module):
    """e_c = ((1/|Ω|) Σ_u max(x_cu, ε)^p)^{1/p} (MultiGrain, equation 1): [n, c, h, w] → [n, c], always in float32.

    p begins at `exponent`, above 0. Each channel is divided by its maximum before the power: from p = 8 on, ε^p of a dead channel
    would underflow to 0 in float32 and the gradient of its root would be NaN.
    """

    def __init__(self, exponent: float = 3.0, trainable: bool = True) -> None:
        super().__init__()
        self.exponent = nn.Parameter(torch.tensor(float(exponent)), requires_grad=trainable)

    def forward(self, features: Tensor) -> Tensor:
        """Pool feature maps [n, c, h, w] over their positions to [n, c]."""
        with torch.autocast(features.device.type, enabled=False):
            values = features.float().clamp(min=EPSILON)
            largest = values.detach().amax(dim=(2, 3), keepdim=True)  # the result does not depend on it
            means = (values / largest).pow(self.exponent).mean(dim=(2, 3))
            return largest[:, :, 0, 0] * means.pow(1 / self.exponent)

    def set_exponent(self, exponent: float | None) -> None:
        """Set p permanently; None changes nothing."""
        if exponent is not None:
            self.exponent.data.fill_(exponent)

    @contextmanager
    def set_exponent_temporarily(self, exponent: float | None = None) -> Iterator[None]:
        """Set p, unless to None, within the block, which may change it further; then restore value, gradient and trainability."""
        stored = self.exponent
        value = stored.detach().clone()
        gradient = stored.grad
        trainable = stored.requires_grad
        self.set_exponent(exponent)
        try:
            yield
        finally:
            stored.requires_grad_(trainable)
            stored.data.copy_(value)
            stored.grad = gradient


def apply_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return inputs [n, c] times the transpose of `weight` [d, c], plus `bias` [d]: [n, d].

    In inference mode on a CPU the rows are multiplied one by one: the last bits of a row of a product can depend on how many rows
    there are. It costs 0.02 to 0.2 ms an image.
    """
    if torch.is_inference_mode_enabled() and inputs.device.type == "cpu":
        return torch.cat([functional.linear(row, weight, bias) for row in inputs.split(1)])
    return functional.linear(inputs, weight, bias)


def whiten(embeddings: Tensor, matrix: Tensor, mean: Tensor) -> Tensor:
    """Return Φ(e) = S (e/‖e‖ − µ) of embeddings [n, d], with `matrix` S [d, d] and `mean` µ [d] (MultiGrain, section 3.4)."""
    return apply_linear(functional.normalize(embeddings) - mean, matrix)


class Descriptor(base.ImageDescriptor):
    """Maps images [n, 3, h, w], normalised with `mean` and `std`, to unit vectors [n, dimensions] float32.

    With settings.domains (IDEAL), each image is embedded in its four rotations (studies/ideal). With settings.whiten
    (MultiGrain, section 3.4), Φ(e) = S (e / ‖e‖ − µ) is applied before the final L2 normalisation. A backbone of tokens (ViT)
    gives its class token next to GeM of its patch tokens, as DINO's evaluation of copy detection does.

    Unless `load_weights`, it starts from random weights, whatever settings.weights says.

    Raises:
        UserError: timm cannot build the backbone, or its weights cannot be fetched or read.
    """

    whitening_mean: Tensor
    whitening_matrix: Tensor

    def __init__(self, settings: DescriptorSettings, load_weights: bool = True) -> None:
        super().__init__()
        self.settings: DescriptorSettings = settings
        built = backbones.build_backbone(
            settings.backbone, settings.model_args or {}, load_weights and settings.weights == "pretrained"
        )
        self.backbone: Any = built.network
        self.compute = built.compute
        self.prefix_tokens = built.prefix_tokens
        self.pooled = built.pooled
        self.pooling = GeM(settings.pooling_exponent, settings.train_pooling_exponent and not built.pooled)
        width = built.channels * (2 if built.prefix_tokens else 1)
        self.dimensions = settings.dimensions or width
        self.domains: Any = settings.domains and load_kind(PARTS, settings.domains)
        if settings.dimensions is not None:
            size = self.domains.head_size(settings.dimensions) if self.domains else settings.dimensions
            self.projection = nn.Linear(width, size, bias=settings.projection_bias)
        if settings.whiten:
            self.register_buffer("whitening_mean", torch.zeros(self.dimensions))
            self.register_buffer("whitening_matrix", torch.eye(self.dimensions))
        self.mean = settings.mean or built.mean
        self.std = settings.std or built.std
        if load_weights and settings.weights not in ("none", "pretrained"):
            start.load_start(self, self.backbone, settings.weights)

    def forward(self, images: Tensor, raw: bool = False) -> Tensor:
        """Return unit vectors [n, d], or with `raw` the embeddings before whitening and normalisation.

        Raw embeddings are [n, d], or with domains [4, n, d / 4].
        """
        return self.describe_features(self.features(images), raw)

    def train(self, mode: bool = True) -> "Descriptor":
        """Set training mode; with settings.frozen_statistics the backbone's batch normalisations stay in evaluation mode."""
        super().train(mode)
        if mode and self.settings.frozen_statistics:
            for module in self.backbone.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def pool_with(self, exponent: float | None) -> None:
        """Set GeM's exponent p permanently; None changes nothing."""
        self.pooling.set_exponent(exponent)

    def use_exponent(self, exponent: float | None) -> AbstractContextManager[None]:
        """Set GeM's exponent p within the block, for validation during training."""
        return self.pooling.set_exponent_temporarily(exponent)

    def features(self, images: Tensor) -> Tensor:
        """Return the backbone's features of images [n, 3, h, w]: maps [n, c, h', w'], tokens or vectors; with domains 4 n."""
        if self.settings.quarter_turns:
            images = torch.rot90(images, self.settings.quarter_turns, dims=(2, 3))
        if self.domains:
            features: Tensor = self.domains.features(partial(self.compute, self.backbone), images)
            return features
        return self.compute(self.backbone, images)

    def _pool(self, features: Tensor) -> Tensor:
        """Maps [n, c, h, w] → [n, c]; tokens [n, t, c] → the class token and GeM of the patches' [n, 2 c]; vectors stay."""
        if self.pooled:
            return features
        if features.ndim == 4:
            pooled: Tensor = self.pooling(features)
            return pooled
        if not self.prefix_tokens:
            raise ValueError(
                f"the backbone gives features {list(features.shape)}, neither maps nor tokens with a class token."
            )
        patches = self.pooling(features[:, self.prefix_tokens :].mT[..., None])
        return torch.cat([features[:, 0].float(), patches], dim=1)

    def describe_features(self, features: Tensor, raw: bool = False) -> Tensor:
        """Compute what `forward` returns from the feature maps; only this part depends on the pooling exponent."""
        pooled = self._pool(features)
        with torch.autocast(features.device.type, enabled=False):
            if self.domains:
                vectors: Tensor = self.domains.describe(pooled.float(), self.projection.weight, raw)
                return vectors
            embeddings = pooled.float()
            if self.settings.dimensions is not None:
                embeddings = apply_linear(embeddings, self.projection.weight, self.projection.bias)
            if raw:
                return embeddings
            if self.settings.whiten and self.whitens:
                embeddings = whiten(embeddings, self.whitening_matrix, self.whitening_mean)
            return functional.normalize(embeddings)

    def drop_whitening(self) -> None:
        """Remove the whitening permanently."""
        if self.settings.whiten:
            self.settings = self.settings.model_copy(update={"whiten": False})
            del self.whitening_mean, self.whitening_matrix


@torch.no_grad()
def check_image_sizes(descriptor: Descriptor, sizes: Iterable[int]) -> None:
    """Check before training that the backbone produces feature maps at each input size in pixels.

    Raises:
        UserError: It does not accept images of a size, produces no maps [n, c, h, w], or memory runs out.
    """
    device = next(descriptor.parameters()).device
    was_training = descriptor.training
    descriptor.eval()
    for size in sorted(set(sizes)):
        try:
            with report_lack_of_memory(
                f"while one image of {size} px was embedded as a test ({descriptor.settings.backbone})",
                "Lower image_size, choose a smaller backbone, or stop other programs that use memory.",
            ):
                descriptor(torch.zeros(1, 3, size, size, device=device))
        except (AssertionError, RuntimeError, ValueError, IndexError) as error:
            raise UserError(
                f"the backbone {descriptor.settings.backbone!r} cannot be trained at image_size {size}: {error} "
                "Choose a convolutional backbone or a ViT, which take any size, or a larger image_size."
            ) from error
    descriptor.train(was_training)
