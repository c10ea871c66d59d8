"""Handmade descriptors: they use other cues than a trained network, so they fail on other images.

Only a whitening of their features is learnt, on training images (models/inference/handmade.py).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from image_copies.data.errors import UserError

from .base import ImageDescriptor
from .settings import HandmadeSettings

GREY_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue
SMALLEST_VARIANCE = 1e-6  # along an axis, as a fraction of the largest
CELLS_PER_SIDE = 4  # energies are averaged in 4 × 4 cells


class HandmadeDescriptor(ImageDescriptor):
    """Maps images [n, 3, h, w] in 0…1 to unit vectors [n, dimensions]: whitened features of one kind."""

    whitening_mean: Tensor
    whitening_matrix: Tensor

    def __init__(self, settings: HandmadeSettings) -> None:
        super().__init__()
        self.settings: HandmadeSettings = settings
        self.features = GaborEnergies()
        channels = self.features.channels
        self.dimensions = min(settings.dimensions, channels)
        self.register_buffer("whitening_mean", torch.zeros(channels))
        self.register_buffer("whitening_matrix", torch.eye(channels)[: self.dimensions])

    def forward(self, images: Tensor, raw: bool = False) -> Tensor:
        """Return unit vectors [n, d], or with `raw` the features [n, f] as unit vectors before whitening.

        The features of the image and its mirror image are added: copies are often mirrored, and nothing here can learn that.
        """
        features = functional.normalize(
            self.features(images.float()) + self.features(images.float().flip(3))
        )
        if raw:
            return features
        return functional.normalize((features - self.whitening_mean) @ self.whitening_matrix.T)

    def whiten(self, features: Tensor) -> None:
        """Fit the whitening on `raw` features [n, f] of training images, keeping the axes of largest variance.

        Raises:
            UserError: There are no more images than dimensions.
        """
        if len(features) <= self.dimensions:
            raise UserError(
                f"{len(features)} training images cannot whiten the {self.dimensions} dimensions of {self.settings.kind!r}. "
                f"Lower its dimensions to at most {len(features) - 1}, or add training images."
            )
        mean = features.double().mean(0)
        spread = features.double() - mean
        values, axes = torch.linalg.eigh(spread.T @ spread / len(spread))
        kept = values.flip(0)[: self.dimensions]
        along = axes.flip(1)[:, : self.dimensions]
        self.whitening_mean.copy_(mean)
        self.whitening_matrix.copy_(
            (along / kept.clamp(min=SMALLEST_VARIANCE * float(values[-1])).sqrt()).T
        )


class GaborEnergies(nn.Module):
    """Energies of Gabor filters at 4 wavelengths (4 to 32 of 64 pixels) × 8 orientations in 4 × 4 cells: [n, 512].

    The grey image is standardised first (mean 0, standard deviation 1). The wavelength is always 4 pixels, of an image that is
    halved from octave to octave. A square root reduces the influence of single strong edges.
    """

    size = 64
    octaves = 4
    directions = 8
    reach = 6
    channels = 512
    filters: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer(
            "filters", _make_gabor_filters(self.directions, wavelength=4.0, sigma=2.2, reach=self.reach)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return features [n, 512] of images [n, 3, h, w] in 0…1."""
        image = _standardize(_to_grey(_resize(images, self.size)))
        energies = []
        for _ in range(self.octaves):
            padded = functional.pad(image, (self.reach,) * 4, mode="reflect")
            # stride 2: energies are smooth
            even, odd = functional.conv2d(padded, self.filters, stride=2).chunk(2, dim=1)
            amplitude = (even**2 + odd**2 + 1e-12).sqrt()
            energies.append(
                functional.avg_pool2d(amplitude, amplitude.shape[2] // CELLS_PER_SIDE).flatten(1)
            )
            image = functional.avg_pool2d(image, 2)
        return torch.cat(energies, dim=1).sqrt()


IMAGE_SIZE = 64  # input size in pixels


def _make_gabor_filters(directions: int, wavelength: float, sigma: float, reach: int) -> Tensor:
    """Return even, then odd filters [2 · directions, 1, 2 · reach + 1, 2 · reach + 1], which do not respond to flat areas."""
    places = torch.arange(-reach, reach + 1, dtype=torch.float64)
    down, right = torch.meshgrid(places, places, indexing="ij")
    envelope = torch.exp(-(down**2 + right**2) / (2 * sigma**2))
    envelope /= envelope.sum()
    even, odd = [], []
    for direction in range(directions):
        angle = math.pi * direction / directions
        phase = 2 * math.pi / wavelength * (math.cos(angle) * right + math.sin(angle) * down)
        wave = torch.cos(phase) * envelope
        even.append(wave - envelope * wave.sum())
        odd.append(torch.sin(phase) * envelope)
    return torch.stack([*even, *odd])[:, None].float()


def _to_grey(images: Tensor) -> Tensor:
    """Convert RGB [n, 3, h, w] to grey [n, 1, h, w]."""
    return (images * images.new_tensor(GREY_WEIGHTS)[:, None, None]).sum(dim=1, keepdim=True)


def _standardize(images: Tensor) -> Tensor:
    """Scale each image to mean 0 and standard deviation 1; a flat image stays near 0."""
    centred = images - images.mean(dim=(2, 3), keepdim=True)
    return centred / (centred.square().mean(dim=(2, 3), keepdim=True).sqrt() + 0.01)


def _resize(images: Tensor, size: int) -> Tensor:
    if images.shape[2:] == (size, size):
        return images
    return functional.interpolate(
        images, (size, size), mode="bilinear", antialias=True, align_corners=False
    )
