"""Training vectors that a descriptor brings along, in addition to those of the run's training images."""

from pathlib import Path

import numpy as np

from image_copies.data.errors import UserError
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.submissions.vectors.files import write_vectors

BACKGROUND_ID = "background/{}"  # no image has such an id: ids of a data set are file names


def write_background(checkpoint: Path, output: Path) -> list[str]:
    """Write the background of a joined descriptor to a vectors file, to be joined with the training images'; return its ids.

    With a few hundred training images of one's own, PCA and query normalisation have thousands of vectors to go by.

    Raises:
        UserError: The descriptor has no background, or the disk is full.
    """
    descriptor = load_descriptor(checkpoint).descriptor
    if not isinstance(descriptor, JoinedDescriptor) or not len(descriptor.background):
        raise UserError(
            f"{checkpoint} brings no background vectors. Remove `background: true` from the recipe, or name a descriptor that "
            "export.py joined from a run with a query normalisation."
        )
    vectors = descriptor.background.float().numpy()
    ids = [BACKGROUND_ID.format(row) for row in range(len(vectors))]
    write_vectors(output, ids, [vectors], np.zeros(len(vectors), bool))
    return ids
