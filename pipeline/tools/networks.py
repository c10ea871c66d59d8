"""The network that a command searches with."""

from pathlib import Path

from image_copies.matching.extractor import Extractor, checkpoint_extractor, join_extractors
from image_copies.models.shipped import SHIPPED

from ..run.paths import list_runs


def open_extractor(
    run: Path | None, data: Path | None, checkpoint: Path | None, joined: Path | None = None
) -> Extractor:
    """Open a checkpoint or any ONNX file if one is given, otherwise a run; `joined` is another such file next to it.

    By default it is the latest run or, if there is none, the descriptor that ships with the project. `data` says where the run's
    data set has been moved to.

    Raises:
        UserError: when a file or the run is missing or cannot be used.
    """
    if checkpoint is None and run is None and not list_runs() and SHIPPED.is_file():
        checkpoint = SHIPPED
    if checkpoint is not None:
        extractor = checkpoint_extractor(checkpoint)
    else:
        # imported here: most searches have no run, whose settings take a while
        from ..run.run import open_existing_run
        from .run_extractor import run_extractor

        extractor = run_extractor(open_existing_run(run, data))
    return extractor if joined is None else join_extractors(extractor, checkpoint_extractor(joined))
