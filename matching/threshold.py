"""A score threshold for a stated false-alarm rate, from queries that are known to copy none of the references.

Of each such query the nearest reference counts. The lower tail of these squared distances is modelled as exponential (peaks over
a threshold: the generalised Pareto distribution with shape 0): each unit of distance towards 0 makes a query rarer by the same
factor. This extrapolates to rates that are rarer than any query observed. The rate scales with the number of references: among
ten times as many references, a query has ten times as many chances of a false alarm. Where the true tail is bounded (vectors
spread evenly over the sphere), the exponential tail overestimates it, and the threshold is stricter than stated.

A picture and its views share the rate: half of the false alarms are the picture's, half its views'.

Synthetic queries that copy nothing of anybody's lie in a small file next to a checkpoint. They are compared with the user's
references: the threshold follows how alike these look, and never compares them with each other, among which there are copies.
Weights stay as they are when the file is written again (`pipeline/export.py --unrelated`). It holds vectors, 4 bits a number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from image_copies.data.arrays import Float32s, Float64s, UInt8s
from image_copies.data.errors import UserError
from image_copies.data.files import digest_file, whole_file
from image_copies.submissions.search.neighbours import Neighbours, Rows

Floats = Float32s
Doubles = Float64s
TAIL_SHARE = 0.2  # share of the queries that the tail is fitted on: those that are nearest to a reference
MIN_QUERIES = 20  # fewest queries that a tail is fitted on
MAX_REFERENCES = 20_000  # of an index that the tail is fitted on; of more, a sample of this size
SHARES = 2  # parts of the rate: the picture's own and that of its views
MIN_REFERENCES = 100  # references that the tail is fitted on; to fewer, unrelated pictures are added
DRAWN_VIEWS = 3  # views of each query that are kept, drawn for each,
# and how many such draws are as many chances of a false alarm as all views; by benchmarks/false_alarms.py
CHANCES = 4.0
# how many times wider the tail of a collection's own pictures is, which are more alike than the synthetic queries; by the same
STRETCH = 1.2
VIEWS_SHARE = TAIL_SHARE / 2  # share of the draws that the tail of views is fitted on
# a query that is nearer than this rate is no unrelated one: the references hold its picture,
COPY_RATE = 1e-4
# unless more than this share of the queries would be left out: then the references look like all of them
MIN_UNRELATED = 0.5
LEVELS = 7  # the largest number of the 15 that are stored


@dataclass(frozen=True)
class Tail:
    """The exponential tail of the squared distances of queries that copy nothing (peaks over a threshold)."""

    start: float  # squared distance below which the tail applies
    scale: float  # mean of `start` minus the squared distance, over the queries below `start`
    share: float  # of the queries below `start`, 0…1, for each reference
    pairs: int  # number of all unrelated pairs
    views: "Tail | None" = None  # of the nearest of a query's views; None where it was not fitted
    # fits the tail to references [m, d], if it can be
    refit: "Callable[[Floats], Tail] | None" = None

    def against(self, references: Callable[[], Floats]) -> "Tail":
        """Return the tail fitted to references [m, d], which are read only if it can be."""
        return self if self.refit is None else self.refit(references())

    def threshold(self, rate: float, references: int) -> float:
        """Return the squared distance below which a query that copies nothing, or a view, finds one with probability `rate`.

        Between 0 and `start`, beyond which the tail does not apply; the rate is between 0 and 1.
        """
        return min(self.start, max(0.0, self.distance(rate, references)))

    def distance(self, alarms: float, references: int) -> float:
        """Return the squared distance up to which so many false alarms are expected per query; it may lie beyond `start`."""
        return float(self.start - self.scale * math.log(SHARES * self.share * max(references, 1) / alarms))

    def false_alarms(self, distances: Doubles, references: int) -> Doubles:
        """Return the expected false alarms per query if squared distances [m], or those of views as rare, were copies: [m].

        Beyond `start` it is the value at `start`.
        """
        nearer = np.maximum(self.start - distances, 0)
        return SHARES * references * self.share * np.exp(-nearer / self.scale)

    def as_whole(self, distances: Doubles, views: int) -> Doubles:
        """Return what squared distances of one of so many views count as: the whole's that are as rare, never less.

        Where no tail of views was fitted, each view is as a query of its own.
        """
        tail = self.views or replace(self, share=self.share * views)
        rarity = math.log(self.share / tail.share) + (tail.start - distances) / tail.scale
        return np.maximum(distances, self.start - self.scale * rarity)


def fit_tail(queries: Floats, references: Floats, own: Rows) -> Tail:
    """Fit the tail on queries [n, d] and references [m, d].

    `own` [n] is the row of the reference that each query is related to; −1 for none.

    Raises:
        UserError: There are too few queries or references.
    """
    if len(queries) < MIN_QUERIES or len(references) < 2:
        raise UserError(
            f"calibration of a threshold needs at least {MIN_QUERIES} unrelated images, but there are {len(queries)}, which are "
            f"compared with {len(references)}. Add training images, or give a threshold with --threshold."
        )
    return fit_minima(find_minima(queries, references, own), len(references), TAIL_SHARE)


def fit_minima(minima: Doubles, references: int, share: float) -> Tail:
    """Fit the tail on so many of the squared distances [n] of queries to the nearest of so many references."""
    ordered = np.sort(minima)
    kept = max(MIN_QUERIES // 4, round(share * len(ordered)))
    start = float(ordered[kept])
    scale = max(float(start - ordered[:kept].mean()), 1e-9)
    return Tail(start, scale, kept / len(ordered) / references, len(ordered) * references)


def find_minima(queries: Floats, references: Floats, own: Rows | int = -1) -> Doubles:
    """Return the squared distances of queries [n, d] to the nearest of references [m, d] but their `own`, if any: [n]."""
    found = Neighbours(references).nearest(queries, 2)
    return np.where(found.rows[:, 0] == own, found.values[:, -1], found.values[:, 0])


def choose_sample(count: int, most: int = MAX_REFERENCES) -> Rows:
    """Return at most so many [n] of `count` rows, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


@dataclass(frozen=True)
class SyntheticQueries:
    """Vectors of synthetic queries, whole and of some of their views, and those of unrelated pictures."""

    whole: Floats  # [n, d] after query normalisation
    views: Floats  # [n, k, d] after query normalisation
    pictures: Floats  # [MIN_REFERENCES, d], as references

    @cached_property
    def tail(self) -> Tail:
        """The tail among the pictures of the file, which can be fitted to others."""
        return replace(_fit_both(*self._minima(self.pictures), len(self.pictures)), refit=self.fit)

    def fit(self, references: Floats) -> Tail:
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

    def _minima(self, references: Floats) -> tuple[Doubles, Doubles]:
        """Return the squared distances of the queries, and of the nearest of their views, to the nearest reference: [n] each."""
        views = find_minima(self.views.reshape(-1, self.views.shape[-1]), references)
        return find_minima(self.whole, references), views.reshape(len(self.views), -1).min(axis=1)


def _fit_both(whole: Doubles, views: Doubles, references: int) -> Tail:
    alone = fit_minima(whole, references, TAIL_SHARE)
    drawn = fit_minima(views, references, VIEWS_SHARE)
    return replace(
        alone,
        scale=STRETCH * alone.scale,
        views=replace(drawn, scale=STRETCH * drawn.scale, share=CHANCES * drawn.share),
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


def _pack(vectors: Floats) -> tuple[UInt8s, Floats]:
    """Return vectors [..., d] in 4 bits a number, two in a byte [..., d / 2], and the scale of each, which keeps its length."""
    steps = np.abs(vectors).max(axis=-1, keepdims=True) / LEVELS
    numbers = np.rint(vectors / np.maximum(steps, np.float32(1e-12)))
    scales = np.linalg.norm(vectors, axis=-1) / np.maximum(np.linalg.norm(numbers, axis=-1), 1)
    halves = (numbers + LEVELS).astype(np.uint8)
    return halves[..., ::2] << 4 | halves[..., 1::2], scales.astype(np.float32)


def _unpack(packed: UInt8s, scales: Floats) -> Floats:
    """Return the vectors [..., d] that `_pack` packed."""
    numbers = (
        np.stack([packed >> 4, packed & 15], axis=-1).reshape(*packed.shape[:-1], -1).astype(np.float32)
        - LEVELS
    )
    return numbers * scales[..., None]
