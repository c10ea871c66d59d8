"""explore.py --matches: open the results of a search, serve the page on this machine alone."""

from pathlib import Path

from image_copies.data.names import text_of
from image_copies.matching.review.app import Review, make_review_app
from image_copies.matching.web.listener import open_listener, run_until_stopped


def review(folder: Path, index: Path | None, port: int) -> None:
    """Serve the review page until Ctrl-C; decisions are kept in `index`, or in the one that was searched. Port 0 is any free one.

    Raises:
        UserError: there are no results, they are damaged, or the port cannot be used.
    """
    with open_listener(port) as listener:
        run_until_stopped(make_review_app(Review(folder, index)), listener, text_of(folder))
