"""Exact search on the GPU by torch: products, thresholds and the selection of candidates stay on the device."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from image_copies.models.device import is_lack_of_memory
from image_copies.submissions.search.backend import Metric, Near, Rows
from image_copies.submissions.search.exact import RELATIVE_ROUNDING

QUERIES_PER_BLOCK = 4096
REFERENCES_PER_BLOCK = 65_536  # with QUERIES_PER_BLOCK, a block of products takes 1 GiB
ALIGNMENT = 8  # dimensions are padded to a multiple of this: aligned rows are multiplied faster
SPARE_NEIGHBOURS = 8  # further neighbours that are searched, so that equal values can be ordered by row


class TorchSearch:
    """A `submissions.search.backend.SearchBackend` on a torch device, with products of blocks of queries and references."""

    def __init__(
        self, device: torch.device, query_block: int = QUERIES_PER_BLOCK, reference_block: int = REFERENCES_PER_BLOCK
    ) -> None:
        self.device, self.query_block, self.reference_block = device, query_block, reference_block

    def candidates(self, queries: NDArray[np.float32], references: NDArray[np.float32], count: int) -> tuple[Rows, Rows] | None:
        """See `SearchBackend.candidates`; the result only decides which distances are computed again in float64."""
        try:
            with _use_full_precision():
                return self._candidates(queries, references, count)
        except RuntimeError as error:
            self._release_or_raise(error)
            return None

    def nearest(
        self, queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
    ) -> tuple[NDArray[np.float32], Rows] | None:
        """See `SearchBackend.nearest`; equal values are ordered by row."""
        try:
            with _use_full_precision():
                return self._nearest(queries, references, count, metric)
        except RuntimeError as error:
            self._release_or_raise(error)
            return None

    def hold(self, vectors: NDArray[np.float16]) -> Tensor | None:
        """See `SearchBackend.hold`; None where there is no memory left."""
        try:
            return torch.from_numpy(vectors).to(self.device)
        except RuntimeError as error:
            self._release_or_raise(error)
            return None

    def near(self, queries: Tensor, references: Tensor, asked: Rows, compared: Rows, limit: float) -> Near | None:
        """See `SearchBackend.near`."""
        try:
            with _use_full_precision():
                return self._near(queries, references, asked, compared, limit)
        except RuntimeError as error:
            self._release_or_raise(error)
            return None

    def _release_or_raise(self, error: RuntimeError) -> None:
        """Re-raise the error unless memory ran out; in that case release the cached memory for other work on the GPU."""
        if not is_lack_of_memory(error):
            raise error
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _candidates(self, queries: NDArray[np.float32], references: NDArray[np.float32], count: int) -> tuple[Rows, Rows]:
        share = bound_rounding(queries.shape[1])
        asked = torch.from_numpy(queries).to(self.device)
        of_queries = asked.square().sum(1)
        left = _append_columns(-2 * asked, (1 - share) * of_queries, torch.ones_like(of_queries))
        kept = _Kept(count, self.device)
        for first_reference in range(0, len(references), self.reference_block):
            block = torch.from_numpy(references[first_reference : first_reference + self.reference_block]).to(self.device)
            of_block = block.square().sum(1)
            right = _append_columns(block, torch.ones_like(of_block), (1 - share) * of_block).T
            for first_query in range(0, len(queries), self.query_block):
                part = slice(first_query, first_query + self.query_block)
                slack = 2 * share * of_queries[part], 2 * share * of_block
                kept.add(left[part] @ right, slack, first_query, first_reference)
        return kept.rows()

    def _nearest(
        self, queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
    ) -> tuple[NDArray[np.float32], Rows]:
        deep, values, rows = min(count + SPARE_NEIGHBOURS, len(references)), [], []
        for first_query in range(0, len(queries), self.query_block):
            asked = torch.from_numpy(queries[first_query : first_query + self.query_block]).to(self.device)
            best = torch.full((len(asked), 0), torch.inf, device=self.device)
            own = torch.zeros((len(asked), 0), dtype=torch.long, device=self.device)
            for first in range(0, len(references), self.reference_block):
                block = torch.from_numpy(references[first : first + self.reference_block]).to(self.device)
                near = -(asked @ block.T) if metric == "cosine" else block.square().sum(1) - 2 * asked @ block.T
                found, columns = near.topk(min(deep, near.shape[1]), largest=False)
                joined, numbers = torch.cat([best, found], 1), torch.cat([own, columns + first], 1)
                best, places = joined.topk(min(deep, joined.shape[1]), largest=False)
                own = numbers.gather(1, places)
            by_row = own.argsort(dim=1)
            order = by_row.gather(1, best.gather(1, by_row).argsort(dim=1, stable=True))[:, :count]
            best, own = best.gather(1, order), own.gather(1, order)
            if metric == "distance":
                best = (best + asked.square().sum(1, keepdim=True)).clamp(min=0)
            values.append((-best if metric == "cosine" else best).cpu())
            rows.append(own.cpu())
        if not values:
            return np.zeros((0, count), np.float32), np.zeros((0, count), np.int64)
        return torch.cat(values).numpy(), torch.cat(rows).numpy()

    def _near(self, queries: Tensor, references: Tensor, asked: Rows, compared: Rows, limit: float) -> Near:
        vectors = self._take(references, compared)
        of_vectors, found = vectors.square().sum(1), []
        for first in range(0, len(asked), self.query_block):
            own = self._take(queries, asked[first : first + self.query_block])
            away = torch.addmm(of_vectors, own, vectors.T, alpha=-2).add_(own.square().sum(1, keepdim=True))
            rows, columns = torch.nonzero(away <= limit, as_tuple=True)
            found.append((rows + first, columns, away[rows, columns]))
        places, others, far = (torch.cat(parts).cpu().numpy() for parts in zip(*found, strict=True))
        return places, others, far

    def _take(self, vectors: Tensor, rows: Rows) -> Tensor:
        return vectors.index_select(0, torch.from_numpy(rows).to(self.device)).float()


class _Kept:
    """Collects the pairs that may be among the `count` nearest, on the device; `radius` shrinks as they are added."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.count = count
        self.radius = torch.tensor(torch.inf, device=device)
        self.parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # query rows, reference rows, lower and upper bounds
        self.bounded = False
        self.held = 0

    def add(self, least: Tensor, slack: tuple[Tensor, Tensor], first_query: int, first_reference: int) -> None:
        """Add a block's pairs, from these rows on, by lower bounds [n, m] of the squared distances.

        `slack` lifts them to upper bounds: a term for each query [n] and one for each reference [m].
        """
        width = least.shape[1]
        if not self.bounded and least.numel() > self.count:  # no pair beyond this block's own nearest can be needed
            near, flat = least.flatten().topk(self.count, largest=False, sorted=False)
            self.radius = (near + slack[0][flat // width] + slack[1][flat % width]).max()
            self.bounded = True
        rows, columns = torch.nonzero(least <= self.radius, as_tuple=True)
        if not len(rows):
            return
        found = least[rows, columns]
        self.parts.append((rows + first_query, columns + first_reference, found, found + slack[0][rows] + slack[1][columns]))
        self.held += len(rows)
        if self.held > 2 * self.count:
            self._shrink()

    def rows(self) -> tuple[Rows, Rows]:
        """Return the pairs' row numbers of queries and references, on the host."""
        if self.held > self.count:
            self._shrink()
        queries, references, _, _ = (torch.cat(parts).cpu().numpy() for parts in zip(*self.parts, strict=True))
        return queries, references

    def _shrink(self) -> None:
        queries, references, least, most = (torch.cat(parts) for parts in zip(*self.parts, strict=True))
        self.radius, self.bounded = most.topk(self.count, largest=False, sorted=False).values.max(), True
        keep = least <= self.radius
        self.parts = [(queries[keep], references[keep], least[keep], most[keep])]
        self.held = len(self.parts[0][0])


def bound_rounding(dimensions: int) -> float:
    """Bound the error of a squared distance from float32 products, relative to ‖q‖² + ‖r‖², for any order of summation."""
    return max(RELATIVE_ROUNDING, (dimensions + ALIGNMENT) * 2.0**-24)


def _append_columns(vectors: Tensor, *columns: Tensor) -> Tensor:
    """Append columns to vectors [n, d] and pad with zeros to a multiple of ALIGNMENT."""
    spare = -(vectors.shape[1] + len(columns)) % ALIGNMENT
    return torch.cat([vectors, *(column[:, None] for column in columns), vectors.new_zeros(len(vectors), spare)], dim=1)


@contextmanager
def _use_full_precision() -> Iterator[None]:
    """Disable TF32, whose products have relative errors of 1e-3, and gradients."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_float32_matmul_precision(before)
