"""The interfaces of networks: a backbone makes features of images, a descriptor unit vectors, whether it is trained or not."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from torch import Tensor, nn

from image_copies.data.settings import Settings


@dataclass(frozen=True)
class Backbone:
    """A network that makes features of RGB images [n, 3, h, w], and how it is used."""

    network: nn.Module  # the network; checkpoints hold its weights under `backbone.`
    # features of images: maps [n, c, h', w'], tokens [n, t, c] or vectors [n, c]
    compute: Callable[[nn.Module, Tensor], Tensor]
    channels: int
    prefix_tokens: int = 0  # number of class and register tokens, which come before those of the patches
    pooled: bool = False  # whether the features are vectors, which are not pooled
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)  # of each colour channel, as `std`, for pixels in 0…1
    std: tuple[float, ...] = (1.0, 1.0, 1.0)


class ImageDescriptor(nn.Module):
    """Maps RGB images [n, 3, h, w], normalised as (pixels in 0…1 − mean) / std, to unit vectors [n, dimensions] float32."""

    settings: Settings  # the settings it was built from; a checkpoint stores them
    dimensions: int
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)  # of each colour channel, as `std`, for pixels in 0…1
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    whitens: bool = True  # whether the whitening, if there is one, is applied

    def pool_with(self, exponent: float | None) -> None:
        """Set GeM's exponent p permanently; None, or a descriptor without GeM, changes nothing."""

    def use_exponent(self, exponent: float | None) -> AbstractContextManager[None]:
        """Set GeM's exponent p within the block; None, or a descriptor without GeM, changes nothing."""
        return nullcontext()

    @contextmanager
    def use_whitening(self, whiten: bool) -> Iterator[None]:
        """Set within the block whether vectors are whitened."""
        before, self.whitens = self.whitens, whiten
        try:
            yield
        finally:
            self.whitens = before

    def __call__(self, images: Tensor, raw: bool = False) -> Tensor:
        """Return unit vectors [n, dimensions], or with `raw` the embeddings that an objective or a whitening is fitted on."""
        result: Tensor = super().__call__(images, raw=raw) if raw else super().__call__(images)
        return result
