"""Products on the GPU by torch: thresholds and the selection of candidates stay on the device."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from image_copies.data.arrays import Float32s
from image_copies.models.device import is_lack_of_memory
from image_copies.submissions.search.neighbours import Candidates, Metric, Rows, bound_rounding

Found = TypeVar("Found")


class TorchSearch:
    """A `submissions.search.neighbours.Device` of torch."""

    def __init__(
        self, device: torch.device, query_block: int = 4096, reference_block: int = 65_536
    ) -> None:
        """Compare blocks of so many vectors, whose products take 1 GiB."""
        self.device = device
        self.blocks = (query_block, reference_block)
        self._last: tuple[Float32s, Tensor] | None = None

    def nearest(self, queries: Float32s, references: Float32s, count: int, metric: Metric) -> Rows | None:
        """See `Device.nearest`."""

        def find() -> Rows:
            vectors, rows = self._hold(references), list[Rows]()
            for asked in torch.from_numpy(queries).split(self.blocks[0]):
                near = -2 * asked.to(self.device) @ vectors.T
                if metric == "distance":
                    near += vectors.square().sum(1)
                rows.append(near.topk(count, largest=False).indices.cpu().numpy())
            return np.concatenate(rows)

        return self._try(find)

    def within(self, queries: Float32s, references: Float32s, limit: float, most: int) -> Candidates | None:
        """See `Device.within`."""

        def find() -> Candidates:
            asked = torch.from_numpy(queries).to(self.device)
            vectors = self._hold(references)
            share = 1 - bound_rounding(queries.shape[1])
            least = torch.addmm(share * vectors.square().sum(1), asked, vectors.T, alpha=-2)
            least += share * asked.square().sum(1, keepdim=True)
            if limit == np.inf and most < least.numel():
                near = least.flatten().topk(most, largest=False, sorted=False).indices
                rows, columns = near // len(vectors), near % len(vectors)
            else:
                rows, columns = torch.nonzero(least <= limit, as_tuple=True)
            return rows.cpu().numpy(), columns.cpu().numpy(), least[rows, columns].cpu().numpy()

        return self._try(find)

    def _hold(self, vectors: Float32s) -> Tensor:
        """Return vectors on the device; those of the last call are still there."""
        if self._last is None or self._last[0] is not vectors:
            self._last = None
            self._last = vectors, torch.from_numpy(vectors).to(self.device)
        return self._last[1]

    def _try(self, find: Callable[[], Found]) -> Found | None:
        """Find something without TF32, whose products have relative errors of 1e-3, and gradients; None where memory runs out."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            with torch.inference_mode():
                return find()
        except RuntimeError as error:
            if not is_lack_of_memory(error):
                raise
            self._last = None
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            return None
        finally:
            torch.set_float32_matmul_precision(before)
