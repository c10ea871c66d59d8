"""Edits that draw, engrave or paint the image; lengths are in pixels at TUNED_SIDE, strength 1 leaves nothing but the drawing."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import coloured, grey_of, mix, pixel_grid, scale_length
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8


@edit("drawing")
def relief(image: Image, degrees: float, depth: float, strength: float) -> Image:
    """Emboss: slopes that face the light from `degrees` are bright, the others dark, `depth` times as steep."""
    grey = grey_of(image).astype(np.float32)
    turn = np.deg2rad(degrees)
    slope = cv2.Sobel(grey, cv2.CV_32F, 1, 0) * np.cos(turn) + cv2.Sobel(grey, cv2.CV_32F, 0, 1) * np.sin(turn)
    return mix(image, coloured(np.clip(128 + depth * slope, 0, 255).astype(np.uint8)), strength)


@edit("drawing")
def outline(image: Image, radius: float, gain: float, dark: bool, strength: float) -> Image:
    """Draw the outlines: steep places of the image blurred by `radius`, light on black or, with `dark`, black on white."""
    smooth = cv2.GaussianBlur(grey_of(image), (0, 0), scale_length(radius, image, 0.4)).astype(np.float32)
    steep = cv2.magnitude(cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1))
    lines = cv2.convertScaleAbs(steep, alpha=gain)
    return mix(image, coloured(as_uint8(255 - lines if dark else lines)), strength)


@edit("drawing")
def ink(image: Image, radius: float, level: float, strength: float) -> Image:
    """Draw in black ink: dark places and the dark side of edges (extended difference of Gaussians)."""
    grey, fine = grey_of(image).astype(np.float32), scale_length(radius, image, 0.5)
    near, far = cv2.GaussianBlur(grey, (0, 0), fine), cv2.GaussianBlur(grey, (0, 0), 1.6 * fine)
    drawn = np.clip(255 + 12 * (near + 8 * (near - far) - level * float(grey.mean())), 0, 255)
    return mix(image, coloured(drawn.astype(np.uint8)), strength)


@edit("drawing")
def engrave(image: Image, period: float, degrees: float, strength: float) -> Image:
    """Draw in parallel lines at `degrees`, wider where the image is darker, as on banknotes."""
    y, x = pixel_grid(image)
    turn, frequency = np.deg2rad(degrees), 2 * np.pi / scale_length(period, image, 3.0)
    wave = 127.5 + 110 * np.cos((x * np.cos(turn) + y * np.sin(turn)) * frequency)
    lines = np.clip(127.5 + 3 * (grey_of(image) - wave), 0, 255).astype(np.uint8)
    return mix(image, coloured(lines), strength)


@edit("drawing")
def paint(image: Image, radius: float, levels: int) -> Image:
    """Paint in patches of `levels` tones a channel whose outlines are rounded with `radius`, as with oil colours."""
    side = 2 * round(scale_length(radius, image)) + 1
    step = 255 / (levels - 1)
    flat = (np.rint(np.arange(256) / step) * step).round().astype(np.uint8)
    return as_uint8(cv2.medianBlur(cv2.LUT(cv2.medianBlur(image, side), flat), side))
