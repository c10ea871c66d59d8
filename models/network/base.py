"""What every descriptor is, a trained network, one made by hand or several joined: images in, unit vectors out."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from torch import Tensor, nn

from data.settings import Settings


class ImageDescriptor(nn.Module):
    """Images [n, 3, h, w], 0…1 less `mean` and divided by `std` → unit vectors [n, dimensions] float32.

    Attributes:
        settings: What it was built from; a checkpoint stores them.
        dimensions: Of the vectors.
        mean: By colour channel.
        std: By colour channel.
        whitens: Whether a descriptor that has a whitening applies it.
    """

    settings: Settings
    dimensions: int
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    whitens: bool = True

    def pool_with(self, exponent: float | None) -> None:
        """Set GeM's exponent where there is such a pooling; other descriptors stay as they are."""

    def pooled_with(self, exponent: float | None) -> AbstractContextManager[None]:
        """Set GeM's exponent, likewise, temporarily."""
        return nullcontext()

    def whiten_with(self, whiten: bool | None) -> None:
        """Set whether vectors are whitened, where the descriptor whitens and `whiten` is given."""
        if whiten is not None:
            self.whitens = whiten

    @contextmanager
    def whitened_with(self, whiten: bool | None) -> Iterator[None]:
        """Set it, likewise, within the block."""
        before = self.whitens
        self.whiten_with(whiten)
        try:
            yield
        finally:
            self.whitens = before

    def __call__(self, images: Tensor, raw: bool = False) -> Tensor:
        """Return unit vectors [n, dimensions]; raw: what an objective or a whitening learns from."""
        result: Tensor = super().__call__(images, raw=raw) if raw else super().__call__(images)
        return result
