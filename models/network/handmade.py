"""Descriptors made by hand: they look at other things than a trained network does, so that they fail on other images.

Nothing of them is learnt but a whitening of their features on training images (models/training/handmade.py).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from data.errors import UserError
from models.network.base import ImageDescriptor
from models.settings import HandmadeKind, HandmadeSettings

GREY = (0.299, 0.587, 0.114)
SMALLEST_VARIANCE = 1e-6  # along an axis, as a share of the largest
CELLS = 4  # by which energies are averaged: 4 × 4 of them


class HandmadeDescriptor(ImageDescriptor):
    """Features of one kind, whitened, as unit vectors."""

    whitening_mean: Tensor
    whitening_matrix: Tensor

    def __init__(self, settings: HandmadeSettings) -> None:
        super().__init__()
        self.settings: HandmadeSettings = settings
        self.features = _FEATURES[settings.kind]()
        with torch.no_grad():
            count = self.features(torch.zeros(1, 3, IMAGE_SIZE, IMAGE_SIZE)).shape[1]
        self.dimensions = min(settings.dimensions, count)
        self.register_buffer("whitening_mean", torch.zeros(count))
        self.register_buffer("whitening_matrix", torch.eye(count)[: self.dimensions])

    def forward(self, images: Tensor, raw: bool = False) -> Tensor:
        """raw: the features [n, f] as unit vectors, before whitening.

        Of the image and its mirror image together: copies are mirrored often, and nothing here learns that they are the same.
        """
        features = functional.normalize(self.features(images.float()) + self.features(images.float().flip(3)))
        if raw:
            return features
        return functional.normalize((features - self.whitening_mean) @ self.whitening_matrix.T)

    def whiten(self, features: Tensor) -> None:
        """Fit the whitening on `raw` features [n, f] of training images; the axes of largest variance are kept.

        Raises:
            UserError: There are too few images for the dimensions.
        """
        if len(features) <= self.dimensions:
            raise UserError(
                f"{len(features)} training images cannot whiten the {self.dimensions} dimensions of {self.settings.kind!r}. "
                f"Lower its dimensions to at most {len(features) - 1}, or add training images."
            )
        mean = features.double().mean(0)
        spread = features.double() - mean
        values, axes = torch.linalg.eigh(spread.T @ spread / len(spread))
        kept, along = values.flip(0)[: self.dimensions], axes.flip(1)[:, : self.dimensions]
        self.whitening_mean.copy_(mean)
        self.whitening_matrix.copy_((along / kept.clamp(min=SMALLEST_VARIANCE * float(values[-1])).sqrt()).T)


class GaborEnergies(nn.Module):
    """Energies of Gabor filters at 4 wavelengths (4 to 32 of 64 pixels) × 8 directions in 4 × 4 cells: [n, 512].

    Of the grey image with its mean taken off and divided by its deviation; every wavelength is 4 pixels of an image that is
    halved so often. A square root lessens what single strong edges say.
    """

    size, octaves, directions, reach = 64, 4, 8, 6
    filters: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("filters", _gabor_filters(self.directions, wavelength=4.0, sigma=2.2, reach=self.reach))

    def forward(self, images: Tensor) -> Tensor:
        """Features [n, 512] of images [n, 3, h, w], 0…1."""
        image = _standardized(_grey(_resized(images, self.size)))
        energies = []
        for _ in range(self.octaves):
            padded = functional.pad(image, (self.reach,) * 4, mode="reflect")
            even, odd = functional.conv2d(padded, self.filters, stride=2).chunk(2, dim=1)  # energies are smooth
            amplitude = (even**2 + odd**2 + 1e-12).sqrt()
            energies.append(functional.avg_pool2d(amplitude, amplitude.shape[2] // CELLS).flatten(1))
            image = functional.avg_pool2d(image, 2)
        return torch.cat(energies, dim=1).sqrt()


class GreyPixels(nn.Module):
    """24 × 24 grey pixels, their mean taken off and divided by their deviation: [n, 576]."""

    size = 24

    def forward(self, images: Tensor) -> Tensor:
        """Features [n, 576] of images [n, 3, h, w], 0…1."""
        return _standardized(_grey(_resized(images, self.size))).flatten(1)


class ColourLayout(nn.Module):
    """Mean brightness and two colour differences in 8 × 8 cells: [n, 192]."""

    size = 8

    def forward(self, images: Tensor) -> Tensor:
        """Features [n, 192] of images [n, 3, h, w], 0…1."""
        small = _resized(images, self.size)
        grey = _grey(small)
        return torch.cat([grey - 0.5, small[:, 2:] - grey, small[:, :1] - grey], dim=1).flatten(1)


IMAGE_SIZE = 64  # of the squares that all of them are given
_FEATURES: dict[HandmadeKind, Callable[[], nn.Module]] = {
    "gabor": GaborEnergies,
    "pixels": GreyPixels,
    "colours": ColourLayout,
}


def _gabor_filters(directions: int, wavelength: float, sigma: float, reach: int) -> Tensor:
    """Even filters, then odd ones, [2 · directions, 1, 2 · reach + 1, 2 · reach + 1], none of which answers to flat areas."""
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


def _grey(images: Tensor) -> Tensor:
    """[n, 3, h, w] → [n, 1, h, w]."""
    return (images * images.new_tensor(GREY)[:, None, None]).sum(dim=1, keepdim=True)


def _standardized(images: Tensor) -> Tensor:
    """Each image with mean 0 and deviation 1; a flat one stays near 0."""
    centred = images - images.mean(dim=(2, 3), keepdim=True)
    return centred / (centred.square().mean(dim=(2, 3), keepdim=True).sqrt() + 0.01)


def _resized(images: Tensor, size: int) -> Tensor:
    if images.shape[2:] == (size, size):
        return images
    return functional.interpolate(images, (size, size), mode="bilinear", antialias=True, align_corners=False)
