"""The challenge's rule that nothing may be fitted on queries or references, enforced instead of trusted."""

from collections.abc import Iterable

from data.errors import UserError


def require_training_only(training: Iterable[str], others: dict[str, Iterable[str]]) -> None:
    """Check that no image that something is to be fitted on is also a query or a reference.

    Args:
        training: ids of the images to fit on.
        others: ids by the name of their set ("query", "reference").

    Raises:
        UserError: a training id is in another set.
    """
    allowed = set(training)
    for name, ids in others.items():
        shared = sorted(allowed.intersection(ids))
        if shared:
            raise UserError(
                f"{len(shared)} training ids are {name} ids too, the first is {shared[0]!r}. The rules allow fitting on training "
                f"images only: take these images out of training_images/ or give them other names if they are other images."
            )
