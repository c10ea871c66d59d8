"""The review page's routes. Nothing that is sent names a file: files are known by their place in the results."""

import threading
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import Field, StringConstraints

from image_copies.data.errors import UserError
from image_copies.data.settings import Settings
from image_copies.matching.index.decisions import Word
from image_copies.matching.review.plans import CHANGED
from image_copies.matching.review.results import Results, open_results
from image_copies.matching.web.app import add_page, send_picture
from image_copies.matching.web.guard import MAX_CONCURRENT_DECODES

PAGE = Path(__file__).parent / "page"
LONG_SIDES = {"small": 360, "large": 1400}  # pixels of the longer side
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Two = Annotated[list[Digest], Field(min_length=2, max_length=2)]


class ShownResults(Settings):
    """The results that a page shows, by their token."""

    token: str = Field(max_length=200)


class DecisionQuestion(ShownResults):
    """What a person says of two files: their positions, and the SHA-256 of both as the page showed them, hexadecimal."""

    first: int
    second: int
    sha256: Two
    decision: Word


class ForgottenDecision(Settings):
    """A decision to take back, by the SHA-256 of the two contents, hexadecimal."""

    sha256: Two


class KeepQuestion(ShownResults):
    """Which file of a group to keep, by its position in the results."""

    group: int
    file: int


class CertainQuestion(ShownResults):
    """Accept all groups of certain copies, of so many pairs as the page showed."""

    pairs: int


class ApplyQuestion(ShownResults):
    """Carry out the plan, as the page showed it."""

    way: Literal["move", "delete-to-trash"]
    plan: Digest


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
            if not self._results.plan.current:
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


def review_router(review: Review) -> APIRouter:
    """Return the routes."""
    router = APIRouter()
    decoding = threading.BoundedSemaphore(MAX_CONCURRENT_DECODES)

    @router.get("/api/review")
    def overview() -> dict[str, Any]:
        return review.open_newest().overview()

    @router.get("/api/plan")
    def plan() -> dict[str, Any]:
        return review.open_newest().summarize_plan()

    @router.get("/api/pairs/{token}/{first}/{second}")
    def pair(token: str, first: int, second: int) -> dict[str, Any]:
        return review.require_shown(token).pair(first, second)

    @router.get("/api/evidence/{token}/{first}/{second}")
    def look(token: str, first: int, second: int) -> dict[str, Any]:
        with decoding:
            return {"evidence": review.require_shown(token).find_evidence(first, second)}

    @router.get("/api/laid/{token}/{first}/{second}")
    def lay(token: str, first: int, second: int) -> dict[str, Any]:
        with decoding:
            return {"laid": review.require_shown(token).lay(first, second)}

    @router.get("/api/groups/{token}/{group}")
    def group(token: str, group: int) -> dict[str, Any]:
        return review.require_shown(token).group(group)

    @router.get("/api/decisions")
    def decisions() -> dict[str, Any]:
        return {"decisions": review.open_newest().list_decisions()}

    @router.post("/api/decisions")
    def decide(question: DecisionQuestion) -> dict[str, Any]:
        results = review.require_shown(question.token)
        return {"before": results.decide(question.first, question.second, question.sha256, question.decision)}

    @router.post("/api/decisions/forget")
    def forget(question: ForgottenDecision) -> dict[str, Any]:
        return {"found": review.open_newest().forget(question.sha256)}

    @router.post("/api/kept")
    def keep(question: KeepQuestion) -> dict[str, Any]:
        results = review.require_shown(question.token)
        results.keep(question.group, question.file)
        return results.group(question.group)

    @router.post("/api/certain")
    def accept(question: CertainQuestion) -> dict[str, Any]:
        return {"accepted": review.require_shown(question.token).accept_certain(question.pairs)}

    @router.post("/api/certain/forget")
    def forget_accepted(question: ShownResults) -> dict[str, Any]:
        return {"forgotten": review.require_shown(question.token).forget_accepted()}

    @router.post("/api/apply")
    def apply(question: ApplyQuestion) -> dict[str, Any]:
        return review.require_shown(question.token).carry_out(question.way, question.plan)

    @router.post("/api/apply/undo")
    def put_back(question: ShownResults) -> dict[str, Any]:
        return review.require_shown(question.token).put_back()

    @router.get("/api/files/{token}/{number}/{size}")
    def show(token: str, number: int, size: Literal["small", "large"]) -> Response:
        path = review.require_shown(token).file(number)
        return send_picture(path, LONG_SIDES[size], decoding, "private, max-age=600")

    add_page(router, PAGE)
    return router
