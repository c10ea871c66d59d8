"""The review page's routes. Nothing that is sent names a file: files are known by their place in the results."""

import threading
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, FastAPI, Response
from pydantic import Field, StringConstraints

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError

from ..index.decisions import Word
from .overlays import encode_jpeg
from .review import CHANGED, Results
from .web import MAX_CONCURRENT_DECODES, make_app

LONG_SIDES = {"small": 360, "large": 1400}  # pixels of the longer side
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
# of the two contents, hexadecimal
Two = Annotated[list[Digest], Field(min_length=2, max_length=2), Body(embed=True)]
# of the results that a page shows
Token = Annotated[str, Body(embed=True, max_length=200)]
Number = Annotated[int, Body()]  # of a file, by its place in the results, or of a group


def review_app(folder: Path, index: Path | None = None) -> FastAPI:
    """Return the application of the page and of what it asks; the results are opened again when a search has written others.

    Raises:
        UserError: as `Results`.
    """
    router = APIRouter()
    decoding = threading.BoundedSemaphore(MAX_CONCURRENT_DECODES)
    opening = threading.Lock()
    opened = Results(folder, index)

    def open_newest() -> Results:
        nonlocal opened
        with opening:
            if not opened.current:
                opened = Results(folder, index)
            return opened

    def require_shown(token: str) -> Results:
        if token != opened.token:
            raise UserError(CHANGED)
        return opened

    @router.get("/api/review")
    def overview() -> dict[str, Any]:
        return open_newest().overview()

    @router.get("/api/plan")
    def plan() -> dict[str, Any]:
        return open_newest().summarize_plan()

    @router.get("/api/pairs/{token}/{first}/{second}")
    def pair(token: str, first: int, second: int) -> dict[str, Any]:
        return require_shown(token).pair(first, second)

    @router.get("/api/laid/{token}/{first}/{second}")
    def lay(token: str, first: int, second: int) -> dict[str, Any]:
        with decoding:
            return {"laid": require_shown(token).lay(first, second)}

    @router.get("/api/groups/{token}/{group}")
    def group(token: str, group: int) -> dict[str, Any]:
        return require_shown(token).group(group)

    @router.get("/api/decisions")
    def decisions() -> dict[str, Any]:
        return {"decisions": open_newest().list_decisions()}

    @router.post("/api/decisions")
    def decide(
        token: Token,
        sha256: Two,
        decision: Annotated[Word, Body()],
        first: Number = 0,
        second: Number = 0,
    ) -> dict[str, Any]:
        return {"before": require_shown(token).decide(sha256, decision, first, second)}

    @router.post("/api/kept")
    def keep(token: Token, group: Number, file: Number) -> None:
        require_shown(token).keep(group, file)

    @router.post("/api/apply")
    def apply(
        token: Token,
        way: Annotated[Literal["move", "delete-to-trash"], Body()],
        plan: Token,
    ) -> dict[str, Any]:
        return require_shown(token).carry_out(way, plan)

    @router.post("/api/apply/undo")
    def put_back(token: Token) -> dict[str, Any]:
        return require_shown(token).put_back()

    @router.get("/api/files/{token}/{number}/{size}")
    def show(token: str, number: int, size: Literal["small", "large"]) -> Response:
        path = require_shown(token).file(number)
        side = LONG_SIDES[size]
        with decoding:
            content = encode_jpeg(decode_rgb(path, short_side=side), side)
        return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=600"})

    return make_app(router, "review")
