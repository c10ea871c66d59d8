"""Edits that cover parts of the image with things that are drawn in apps."""

import cv2
import numpy as np

from image_copies.augmentations.edits.registry import Image, edit


@edit("bubble")
def speech_bubbles(image: Image, count: int, size: float, fill: list[int], seed: int) -> Image:
    """Draw `count` speech bubbles of a colour `fill` with lines of writing, `size` of the width wide."""
    rng, result = np.random.default_rng(seed), image.copy()
    height, width = image.shape[:2]
    for x, y, flat, tail in rng.uniform(0, 1, (count, 4)):
        wide = max(4, round(size * width / 2))
        tall, centre = max(3, round(wide * (0.4 + 0.3 * flat))), (int(x * width), int(y * height))
        end = int(centre[0] + (tail - 0.5) * 3 * wide), centre[1] + 2 * tall
        cv2.fillPoly(result, [np.array([centre, (centre[0] + wide // 3, centre[1]), end], np.int32)], fill, cv2.LINE_AA)
        cv2.ellipse(result, centre, (wide, tall), 0, 0, 360, fill, -1, cv2.LINE_AA)
        for line in (-0.4, 0.0, 0.4):
            start = centre[0] - round(0.6 * wide), centre[1] + round(line * tall)
            cv2.line(result, start, (start[0] + wide, start[1]), (40, 40, 40), max(1, tall // 8))
    return result


@edit("bubble")
def confetti(image: Image, count: int, size: float, seed: int) -> Image:
    """Scatter `count` coloured shapes, up to `size` of the short side wide: circles, squares and triangles."""
    rng, result = np.random.default_rng(seed), image.copy()
    height, width = image.shape[:2]
    for x, y, turn, share in rng.random((count, 4)):
        corners = int(rng.choice([3, 4, 12]))
        angles = 2 * np.pi * (np.arange(corners) / corners + turn)
        radius = max(1.5, size * min(height, width) * (0.3 + 0.7 * share) / 2)
        shape = np.stack([x * width + radius * np.cos(angles), y * height + radius * np.sin(angles)], axis=1)
        cv2.fillPoly(result, [shape.astype(np.int32)], rng.integers(0, 256, 3).tolist(), cv2.LINE_AA)
    return result
