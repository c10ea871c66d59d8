"""What explore.py shows without an index: a run, or a folder with the descriptor that ships with the project."""

from pathlib import Path

from image_copies.augmentations.query_set import FileOverlays
from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.data.layout import open_isc_folder
from image_copies.matching.explorer.answers import SHOWN_REFERENCES, Explorer, open_folder_explorer, reference_index
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.matches import Rule
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.run import Run, assign_training_roles, list_runs, open_existing_run
from image_copies.pipeline.tools.run_extractor import run_extractor
from image_copies.submissions.vectors.files import read_vectors


def open_explorer(folder: Path | None, data: Path | None, references: Path | None, rate: float) -> Explorer:
    """Open a folder of pictures to search in if one is given, otherwise a run, by default the latest.

    `data` says where the run's data set has been moved to. The threshold is set for `rate` expected false alarms per query, 0…1.

    Raises:
        UserError: when there is no run, a step of it has not been done, or a folder cannot be used.
    """
    if references is not None:
        images = find_images(references, naming="path")
        return open_folder_explorer(checkpoint_extractor(SHIPPED), str(references), images, rate)
    if folder is None and not list_runs():
        raise UserError(
            "there is no run. Give pictures to search in with --references DIR or --index DIR, for which the shipped "
            "descriptor is used, or start a run: bash run_all.sh"
        )
    return open_run_explorer(open_existing_run(folder, data), rate)


def open_run_explorer(run: Run, rate: float) -> Explorer:
    """Open a run for exploration; without enough pairs to calibrate, there is no threshold.

    It is set for `rate` expected false alarms per query, 0…1.

    Raises:
        UserError: when a step has not been done, which the message names, or the data set is missing.
    """
    extractor = run_extractor(run)
    references = read_vectors(run.require(run.paths.projected("reference")))
    try:
        tail, uncalibrated = extractor.calibrate(), ""
    except UserError as error:
        tail, uncalibrated = None, str(error)
    data, roles = open_isc_folder(run.data), assign_training_roles(run)
    return Explorer(
        title=str(run.folder),
        extractor=extractor,
        references=references,
        index=reference_index(references),
        rule=Rule(None, tail, rate, SHOWN_REFERENCES),
        uncalibrated=uncalibrated,
        pictures={"reference": data.reference, "training": data.training, "query": data.query},
        others=FileOverlays(roles.overlays) if len(roles.overlays) else None,
    )
