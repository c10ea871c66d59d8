"""Enforcement of the challenge's rule that nothing may be fitted on queries or references."""

from collections.abc import Iterable

from image_copies.data.errors import UserError


def require_training_only(training: Iterable[str], others: dict[str, Iterable[str]]) -> None:
    """Check that none of the images to fit on is also a query or a reference.

    Args:
        training: Ids of the images to fit on.
        others: Ids of the other sets, by the set's name ("query", "reference").

    Raises:
        UserError: when a training id is in another set.
    """
    allowed = set(training)
    for name, ids in others.items():
        shared = sorted(allowed.intersection(ids))
        if shared:
            raise UserError(
                f"{len(shared)} training ids are also {name} ids, the first is {shared[0]!r}. The rules allow fitting on "
                f"training images only: remove these images from training_images/, or rename them if they are different images."
            )
