"""Enforcement of the challenge's rule that nothing may be fitted on queries or references."""

from collections.abc import Iterable

from image_copies.data.errors import UserError


def require_training_only(training: Iterable[str], others: dict[str, Iterable[str]]) -> None:
    """Check that none of the ids to fit on is in one of the others' sets, which are named, such as "query".

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
