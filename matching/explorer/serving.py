"""explore.py's work: serve the page, or the search service, on 127.0.0.1 only."""

from collections.abc import Callable
from pathlib import Path

from image_copies.matching.explorer.answers import Explorer
from image_copies.matching.explorer.app import make_app
from image_copies.matching.explorer.service import SearchService, make_service
from image_copies.matching.extractor import Extractor
from image_copies.matching.matches import Rule
from image_copies.matching.web.listener import open_listener, run_until_stopped


def explore(open_explorer: Callable[[], Explorer], port: int) -> None:
    """Serve the explorer's page until Ctrl-C; what it shows is opened once the port, 0 for any free one, is taken.

    Raises:
        UserError: when the port cannot be used, or what is to be shown cannot be opened.
    """
    with open_listener(port) as listener:
        explorer = open_explorer()
        run_until_stopped(make_app(explorer), listener, explorer.title)


def serve(index: Path, extractor: Extractor, rule: Rule, port: int) -> None:
    """Serve the search of an index, which the extractor made, until Ctrl-C; port 0 is any free one.

    Raises:
        UserError: when the port cannot be used, or there is no index of this network.
    """
    with open_listener(port) as listener:
        service = SearchService(index, extractor, rule)
        title = f"{index}, {service.about()['references']} references"
        run_until_stopped(make_service(service), listener, title)
