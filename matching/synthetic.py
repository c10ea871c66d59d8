"""Synthetic queries that copy nothing of anybody's, in a small file next to a checkpoint: what the threshold is fitted on.

They are compared with the user's references: the threshold follows how alike these look, and never compares them with each other,
among which there are copies. Weights stay as they are when the file is written again (`pipeline/export.py --unrelated`). It holds
vectors, 4 bits a number.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from image_copies.data.errors import UserError
from image_copies.data.files import digest_file, whole_file
from image_copies.matching.threshold import TAIL_SHARE, Tail, find_minima, fit_minima

MIN_REFERENCES = 100  # references that the tail is fitted on; to fewer, unrelated pictures are added
DRAWN_VIEWS = 3  # views of each query that are kept, drawn for each,
# and how many such draws are as many chances of a false alarm as all views; by benchmarks/false_alarms.py
CHANCES = 4.0
VIEWS_SHARE = TAIL_SHARE / 2  # share of the draws that the tail of views is fitted on
# a query that is nearer than this rate is no unrelated one: the references hold its picture,
COPY_RATE = 1e-4
# unless more than this share of the queries would be left out: then the references look like all of them
MIN_UNRELATED = 0.5
LEVELS = 7  # the largest number of the 15 that are stored


@dataclass(frozen=True)
class SyntheticQueries:
    """Vectors of synthetic queries, whole and of some of their views, and those of unrelated pictures."""

    whole: NDArray[np.float32]  # [n, d] after query normalisation
    views: NDArray[np.float32]  # [n, k, d] after query normalisation
    pictures: NDArray[np.float32]  # [MIN_REFERENCES, d], as references

    @cached_property
    def tail(self) -> Tail:
        """The tail among the pictures of the file, which can be fitted to others."""
        return replace(_fit_both(*self._minima(self.pictures), len(self.pictures)), refit=self.fit)

    def fit(self, references: NDArray[np.float32]) -> Tail:
        """Return the tail among references [m, d]; queries whose own pictures are among them are left out."""
        held = np.concatenate([references, self.pictures[: max(0, MIN_REFERENCES - len(references))]])
        assert self.tail.views is not None
        (whole, views), count = self._minima(held), len(held)
        unrelated = (whole > self.tail.threshold(COPY_RATE, count)) & (
            views > self.tail.views.threshold(COPY_RATE, count)
        )
        if unrelated.mean() < MIN_UNRELATED:
            unrelated[:] = True
        return _fit_both(whole[unrelated], views[unrelated], count)

    def _minima(self, references: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the squared distances of the queries, and of the nearest of their views, to the nearest reference: [n] each."""
        views = find_minima(self.views.reshape(-1, self.views.shape[-1]), references)
        return find_minima(self.whole, references), views.reshape(len(self.views), -1).min(axis=1)


def _fit_both(whole: NDArray[np.float64], views: NDArray[np.float64], references: int) -> Tail:
    drawn = fit_minima(views, references, VIEWS_SHARE)
    return replace(
        fit_minima(whole, references, TAIL_SHARE), views=replace(drawn, share=CHANCES * drawn.share)
    )


def synthetic_path(checkpoint: Path) -> Path:
    """Return where the synthetic queries of a checkpoint are kept."""
    return checkpoint.with_suffix(".unrelated.safetensors")


def write_synthetic(checkpoint: Path, queries: SyntheticQueries) -> None:
    """Write the synthetic queries of a checkpoint next to it.

    Raises:
        UserError: The disk is full.
    """
    tensors = dict[str, NDArray[Any]]()
    for name in ("whole", "views", "pictures"):
        tensors[name], tensors[f"{name}_scale"] = _pack(getattr(queries, name))
    with whole_file(synthetic_path(checkpoint)) as temporary:
        temporary.write_bytes(save(tensors, {"checkpoint": digest_file(checkpoint)}))


def read_synthetic(checkpoint: Path) -> SyntheticQueries | None:
    """Return the synthetic queries that are kept next to a checkpoint; None without any.

    Raises:
        UserError: The file is damaged, or belongs to other weights.
    """
    path = synthetic_path(checkpoint)
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            owner = (file.metadata() or {}).get("checkpoint")
            whole, views, pictures = (
                _unpack(file.get_tensor(name), file.get_tensor(f"{name}_scale"))
                for name in ("whole", "views", "pictures")
            )
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{path} cannot be read ({error}). Remove it, or write it again: export.py --unrelated."
        ) from error
    if owner != digest_file(checkpoint):
        raise UserError(
            f"{path} was made with other weights than {checkpoint}. Remove it, or write it again: export.py --unrelated."
        )
    return SyntheticQueries(whole, views, pictures)


def _pack(vectors: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return vectors [..., d] in 4 bits a number, two in a byte [..., d / 2], and the scale of each, which keeps its length."""
    steps = np.abs(vectors).max(axis=-1, keepdims=True) / LEVELS
    numbers = np.rint(vectors / np.maximum(steps, np.float32(1e-12)))
    scales = np.linalg.norm(vectors, axis=-1) / np.maximum(np.linalg.norm(numbers, axis=-1), 1)
    halves = (numbers + LEVELS).astype(np.uint8)
    return halves[..., ::2] << 4 | halves[..., 1::2], scales.astype(np.float32)


def _unpack(packed: NDArray[np.uint8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors [..., d] that `_pack` packed."""
    numbers = (
        np.stack([packed >> 4, packed & 15], axis=-1).reshape(*packed.shape[:-1], -1).astype(np.float32)
        - LEVELS
    )
    return numbers * scales[..., None]
