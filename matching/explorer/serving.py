"""explore.py's work: open the run and serve the page, or the search service, on 127.0.0.1 only."""

from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.matching.explorer.answers import open_explorer, open_folder_explorer, open_index_explorer
from image_copies.matching.explorer.app import make_app
from image_copies.matching.explorer.listener import open_listener, run_until_stopped
from image_copies.matching.explorer.service import SearchService, make_service
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.index.matches import Rule
from image_copies.matching.model import Model
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.run import list_runs, open_existing_run


def explore(folder: Path | None, data: Path | None, port: int, false_alarms: float, references: Path | None = None) -> None:
    """Serve the explorer's page until Ctrl-C.

    Args:
        folder: The run folder; None for the latest run.
        data: Where the run's data set has been moved to; None if it has not.
        port: Port on 127.0.0.1; 0 for any free one.
        false_alarms: Expected false alarms per query for which the threshold is set, between 0 and 1.
        references: Folder of pictures to search in instead of a run's, with the descriptor that ships with the project.

    Raises:
        UserError: when a step of the run has not been done, the port cannot be used, or the rate is out of range.
    """
    if not 0 < false_alarms < 1:
        raise UserError(f"--false-alarms {false_alarms}: give a rate per query between 0 and 1, such as 0.001.")
    with open_listener(port) as listener:
        if references is not None:
            extractor, images = checkpoint_extractor(SHIPPED), find_images(references, naming="path")
            explorer = open_folder_explorer(extractor, str(references), images, false_alarms)
        elif folder is None and not list_runs():
            raise UserError(
                "there is no run. Give pictures to search in with --references DIR or --index DIR, for which the shipped "
                "descriptor is used, or start a run: bash run_all.sh"
            )
        else:
            explorer = open_explorer(open_existing_run(folder, data), false_alarms)
        run_until_stopped(make_app(explorer), listener, explorer.title)


def explore_index(index: Path, model: Model, rule: Rule, port: int) -> None:
    """Serve the explorer's page over the pictures of a kept index until Ctrl-C.

    Raises:
        UserError: the port is taken, or there is no index that the model made.
    """
    with open_listener(port) as listener:
        explorer = open_index_explorer(index, model.extractor, rule)
        run_until_stopped(make_app(explorer), listener, explorer.title)


def serve(index: Path, model: Model, rule: Rule, port: int) -> None:
    """Serve the search of an index until Ctrl-C.

    Args:
        index: Folder of the index.
        model: The network that its vectors were made with.
        rule: When a pair counts as a copy.
        port: Port on 127.0.0.1; 0 for any free one.

    Raises:
        UserError: when the port cannot be used, or there is no index of this network.
    """
    with open_listener(port) as listener:
        service = SearchService(index, model.extractor, rule)
        title = f"{index}, {service.about()['references']} references"
        run_until_stopped(make_service(service), listener, title)
