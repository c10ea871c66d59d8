"""Outlines of simple shapes within [−1, 1]², each a list of closed rings [points, 2]; a ring inside another is a hole."""

import numpy as np
from numpy.typing import NDArray

Ring = NDArray[np.float64]


def _polar(reach: NDArray[np.float64] | float, points: int = 96) -> Ring:
    turn = np.linspace(0, 2 * np.pi, points, endpoint=False)
    return np.stack([reach * np.cos(turn), reach * np.sin(turn)], axis=1)


def _corners(*corners: tuple[float, float]) -> Ring:
    return np.array(corners, dtype=np.float64)


def _star(points: int, inner: float) -> Ring:
    return _polar(np.where(np.arange(2 * points) % 2 == 0, 1.0, inner), 2 * points)


def _crescent() -> Ring:
    outer = np.linspace(0.25 * np.pi, 1.75 * np.pi, 48)
    inner = np.linspace(1.6 * np.pi, 0.4 * np.pi, 48)
    edge = np.stack([np.cos(outer), np.sin(outer)], axis=1)
    bite = np.stack([0.47 + 0.75 * np.cos(inner), 0.75 * np.sin(inner)], axis=1)
    return np.concatenate([edge, bite])


def _heart() -> Ring:
    t = np.linspace(0, 2 * np.pi, 96, endpoint=False)
    across = 16 * np.sin(t) ** 3
    along = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([across, -along], axis=1) / 17


POLYGONS: dict[str, list[Ring]] = {
    "disc": [_polar(0.9)],
    "triangle": [_polar(1.0, 3)],
    "square": [_polar(1.0, 4)],
    "star": [_star(5, 0.42)],
    "ring": [_polar(1.0), _polar(0.5)],
    "crescent": [_crescent()],
    "heart": [_heart()],
    "cross": [
        _corners(
            *((-0.32, -1), (0.32, -1), (0.32, -0.32), (1, -0.32), (1, 0.32), (0.32, 0.32)),
            *((0.32, 1), (-0.32, 1), (-0.32, 0.32), (-1, 0.32), (-1, -0.32), (-0.32, -0.32)),
        )
    ],
    "arrow": [_corners((1, 0), (0.1, 0.8), (0.1, 0.3), (-0.95, 0.3), (-0.95, -0.3), (0.1, -0.3), (0.1, -0.8))],
    "flower": [_polar(0.72 + 0.28 * np.cos(6 * np.linspace(0, 2 * np.pi, 96, endpoint=False)))],
    "frame": [_polar(1.0, 4), _polar(0.55, 4)],
    "corner": [_corners((-0.8, -0.8), (0.8, -0.8), (0.8, -0.2), (-0.2, -0.2), (-0.2, 0.8), (-0.8, 0.8))],
}
