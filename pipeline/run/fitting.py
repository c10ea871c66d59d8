"""Nothing is fitted on queries or references: what a run trains, whitens or projects with are images of neither."""

from pathlib import Path

from image_copies.data.errors import StorageError, UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.layout import QUERY, REFERENCE
from image_copies.pipeline.run.run import Run
from image_copies.submissions.ensemble.rules import require_training_only


def require_no_tests(run: Run, images: ImageSet, purpose: str) -> None:
    """Check that images to fit on are neither queries nor references of the run's data set, by id and by file.

    The same file under another name is found where it is a link; a copy with other bytes or another name is not. The message says
    what is fitted, such as "the whitening of one".

    Raises:
        UserError: when one is a query or a reference.
    """
    files = {identity: path for path in images.paths if (identity := _identify(path)) is not None}
    others = {name: _find_tests(run.data / name) for name in (QUERY, REFERENCE)}
    require_training_only(images.ids, {name.removesuffix("_images"): found.ids for name, found in others.items()})
    for name, found in others.items():
        for path in found.paths:
            if (identity := _identify(path)) in files:
                raise UserError(
                    f"{purpose}: {files[identity]} is the same file as {path}. The rules allow fitting on training images only: "
                    f"take the images of {name}/ out of the folder, or name another one."
                )


def _find_tests(folder: Path) -> ImageSet:
    """Return the images of a folder; none where it is missing or cannot be used, which the steps that need it report."""
    try:
        return find_images(folder)
    except StorageError:  # nothing is known of it
        raise
    except UserError:
        return ImageSet([], [])


def _identify(path: Path) -> tuple[int, int] | None:
    """Return what is the same for all names of a file; None where there is no file."""
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_dev, state.st_ino) if state.st_ino else None
