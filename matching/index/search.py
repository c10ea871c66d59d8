"""The nearest references in a stored index, by exact search in memory."""

from dataclasses import dataclass

import numpy as np

from image_copies.data.errors import UserError
from image_copies.submissions.search import neighbours
from image_copies.submissions.search.neighbours import Nearest

from ..threshold import Floats, choose_sample
from .store import Store, stored_vectors


@dataclass(frozen=True)
class Neighbours:
    """The searchable vectors of one state of a store.

    Attributes:
        digests: SHA-256 [n] of its readable contents, in the order in which they were added.
        vectors: Their vectors, float32 [n, d].
    """

    digests: list[bytes]
    vectors: Floats

    @property
    def ntotal(self) -> int:
        """Number of contents."""
        return len(self.digests)

    def nearest(self, queries: Floats, count: int) -> Nearest:
        """Find the nearest contents of each query, float32 [n, d]: `count`, or all of fewer.

        Raises:
            UserError: A query is not finite.
        """
        if not np.isfinite(queries).all():
            raise UserError(
                "a query's vector is not finite (NaN or infinite): the checkpoint is probably damaged."
            )
        return neighbours.Neighbours(self.vectors).nearest(np.asarray(queries, np.float32), count)

    def sample(self) -> Floats:
        """Return the vectors [m, d] of a sample of the contents, to which a threshold is fitted."""
        return self.vectors[choose_sample(self.ntotal)]


def open_search(store: Store) -> Neighbours:
    """Read the vectors of the store's present state.

    Raises:
        UserError: A vector in the database is damaged.
    """
    store.database.execute("BEGIN")  # one state for their number and the vectors
    try:
        (most,) = store.database.execute("SELECT count(*) FROM contents").fetchone()
        vectors, digests = np.empty((most, store.dimensions), np.float32), list[bytes]()
        for own, block in stored_vectors(store):
            vectors[len(digests) : len(digests) + len(own)] = block
            digests += own
    finally:
        if store.database.in_transaction:
            store.database.execute("COMMIT")
    return Neighbours(digests, vectors[: len(digests)])
