"""The review page's web application. Nothing that is sent names a file: files are known by their place in the results."""

import threading
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Response
from pydantic import Field, StringConstraints

from image_copies.data.errors import UserError
from image_copies.data.settings import Settings
from image_copies.matching.index.decisions import Word
from image_copies.matching.review.plans import CHANGED
from image_copies.matching.review.results import Results, open_results
from image_copies.matching.web.guard import MAX_CONCURRENT_DECODES, guard
from image_copies.matching.web.pages import add_page, send_picture

PAGE = Path(__file__).parent / "page"
LONG_SIDES = {"small": 360, "large": 1400}  # pixels of the longer side
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Two = Annotated[list[Digest], Field(min_length=2, max_length=2)]


class DecisionQuestion(Settings):
    """What a person says of two files.

    Attributes:
        token: Names the results that the page shows.
        first: Position of one file in the results.
        second: Position of the other file.
        sha256: SHA-256 of both as the page showed them, hexadecimal.
        decision: The decision.
    """

    token: str = Field(max_length=200)
    first: int
    second: int
    sha256: Two
    decision: Word


class ForgottenDecision(Settings):
    """A decision to take back, by the SHA-256 of the two contents, hexadecimal."""

    sha256: Two


class KeepQuestion(Settings):
    """Which file of a group to keep.

    Attributes:
        token: Names the results that the page shows.
        group: Number of the group.
        file: Position of the file in the results.
    """

    token: str = Field(max_length=200)
    group: int
    file: int


class CertainQuestion(Settings):
    """Accept all groups of certain copies.

    Attributes:
        token: Names the results that the page shows.
        pairs: Number of pairs that the page showed.
    """

    token: str = Field(max_length=200)
    pairs: int


class ApplyQuestion(Settings):
    """Carry out the plan.

    Attributes:
        token: Names the results that the page shows.
        way: What becomes of the files.
        files: Number of files that the page showed.
    """

    token: str = Field(max_length=200)
    way: Literal["move", "delete-to-trash"]
    files: int


class ShownResults(Settings):
    """The results that the page shows, by their token."""

    token: str = Field(max_length=200)


class Review:
    """The results that are shown; opened again when a search has written others."""

    def __init__(self, folder: Path, index: Path | None) -> None:
        """Open the results.

        Raises:
            UserError: as `open_results`.
        """
        self._folder, self._index = folder, index
        self._opening = threading.Lock()
        self._results = open_results(folder, index)

    def open_newest(self) -> Results:
        """Return the results as they are now."""
        with self._opening:
            if not self._results.current:
                self._results = open_results(self._folder, self._index)
            return self._results

    def require_shown(self, token: str) -> Results:
        """Return the results that a page shows.

        Raises:
            UserError: a search has written others since.
        """
        if token != self._results.token:
            raise UserError(CHANGED)
        return self._results


def make_review_app(review: Review) -> FastAPI:
    """Make the application."""
    app = FastAPI(openapi_url=None)
    decoding = threading.BoundedSemaphore(MAX_CONCURRENT_DECODES)

    @app.get("/api/review")
    def overview() -> dict[str, Any]:
        return review.open_newest().overview()

    @app.get("/api/plan")
    def plan() -> dict[str, Any]:
        return review.open_newest().summarize_plan()

    @app.get("/api/pairs/{token}/{first}/{second}")
    def pair(token: str, first: int, second: int) -> dict[str, Any]:
        return review.require_shown(token).pair(first, second)

    @app.get("/api/evidence/{token}/{first}/{second}")
    def look(token: str, first: int, second: int) -> dict[str, Any]:
        with decoding:
            return {"evidence": review.require_shown(token).find_evidence(first, second)}

    @app.get("/api/laid/{token}/{first}/{second}")
    def lay(token: str, first: int, second: int) -> dict[str, Any]:
        with decoding:
            return {"laid": review.require_shown(token).lay(first, second)}

    @app.get("/api/groups/{token}/{group}")
    def group(token: str, group: int) -> dict[str, Any]:
        return review.require_shown(token).group(group)

    @app.get("/api/decisions")
    def decisions() -> dict[str, Any]:
        return {"decisions": review.open_newest().list_decisions()}

    @app.post("/api/decisions")
    def decide(question: DecisionQuestion) -> dict[str, Any]:
        results = review.require_shown(question.token)
        return {"before": results.decide(question.first, question.second, question.sha256, question.decision)}

    @app.post("/api/decisions/forget")
    def forget(question: ForgottenDecision) -> dict[str, Any]:
        return {"found": review.open_newest().forget(question.sha256)}

    @app.post("/api/kept")
    def keep(question: KeepQuestion) -> dict[str, Any]:
        results = review.require_shown(question.token)
        results.keep(question.group, question.file)
        return results.group(question.group)

    @app.post("/api/certain")
    def accept(question: CertainQuestion) -> dict[str, Any]:
        return {"accepted": review.require_shown(question.token).accept_certain(question.pairs)}

    @app.post("/api/certain/forget")
    def forget_accepted(question: ShownResults) -> dict[str, Any]:
        return {"forgotten": review.require_shown(question.token).forget_accepted()}

    @app.post("/api/apply")
    def apply(question: ApplyQuestion) -> dict[str, Any]:
        return review.require_shown(question.token).carry_out(question.way, question.files)

    @app.post("/api/apply/undo")
    def put_back(question: ShownResults) -> dict[str, Any]:
        return review.require_shown(question.token).put_back()

    @app.get("/api/files/{token}/{number}/{size}")
    def show(token: str, number: int, size: Literal["small", "large"]) -> Response:
        path = review.require_shown(token).file(number)
        return send_picture(path, LONG_SIDES[size], decoding, "private, max-age=600")

    add_page(app, PAGE)
    guard(app)
    return app
