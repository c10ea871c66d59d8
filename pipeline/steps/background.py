"""Training vectors that a descriptor brings along, beside those of the run's own training images."""

from pathlib import Path

import numpy as np

from data.errors import UserError
from models.network.checkpoint import load_descriptor
from models.network.joined import JoinedDescriptor
from submissions.vectors.files import read_vectors, write_vectors

BACKGROUND_ID = "background/{}"  # no image has such an id: ids of a data set are file names


def append_background(checkpoint: Path, vectors: Path) -> None:
    """Append the background of a joined descriptor to the vectors of the training images.

    With a few hundred training images of one's own, PCA and query normalisation have thousands of vectors to go by.

    Args:
        checkpoint: The descriptor, whose `background` [m, d] is appended.
        vectors: The vectors file of the training images [n, d], which is replaced by one of n + m rows.

    Raises:
        UserError: The descriptor has no background.
    """
    descriptor = load_descriptor(checkpoint).descriptor
    if not isinstance(descriptor, JoinedDescriptor) or not len(descriptor.background):
        raise UserError(
            f"{checkpoint} brings no background vectors. Remove `background: true` from the recipe, or name a descriptor that "
            "export.py joined from a run with a query normalisation."
        )
    own, background = read_vectors(vectors), descriptor.background.float().numpy()
    ids = [*own.ids, *(BACKGROUND_ID.format(row) for row in range(len(background)))]
    unreadable = np.concatenate([own.unreadable, np.zeros(len(background), bool)])
    write_vectors(vectors, ids, [own.vectors, background], unreadable)
