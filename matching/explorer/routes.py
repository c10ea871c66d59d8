"""The explorer's routes: a page, the answers it asks for, and thumbnails. Nothing that is sent is ever written."""

import asyncio
import threading
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import Field

from image_copies.data.errors import UserError
from image_copies.data.settings import Settings
from image_copies.data.sources.archives import read_bytes
from image_copies.matching.explorer.answers import Explorer, Kind, answer
from image_copies.matching.explorer.edits import list_edits
from image_copies.matching.explorer.uploads import Uploads
from image_copies.matching.web.guard import MAX_CONCURRENT_DECODES, MAX_CONCURRENT_UPLOADS, MAX_PICTURE_BYTES, receive_picture
from image_copies.matching.web.pages import add_page, send_picture

PAGE = Path(__file__).parent / "page"
SHOWN_SIDE = 240  # pixels of a thumbnail's long side
MAX_PICKS = 500  # queries of the run that the page offers


class Question(Settings):
    """What the page asks about a picture."""

    picture: str = Field(max_length=64)
    edit: str | None = Field(None, max_length=64)
    intensity: float = Field(0.5, ge=0, le=1)
    draw: int = Field(0, ge=0, lt=2**31)


def explorer_router(explorer: Explorer) -> APIRouter:
    """Return the routes, which embed one picture at a time and decode at most MAX_CONCURRENT_DECODES at once."""
    router = APIRouter()
    pictures, working = Uploads(), threading.Lock()
    receiving, decoding = asyncio.Semaphore(MAX_CONCURRENT_UPLOADS), threading.BoundedSemaphore(MAX_CONCURRENT_DECODES)

    def keep(content: bytes) -> str:
        with decoding:
            return pictures.add(content)

    paths = {kind: dict(zip(images.ids, images.paths, strict=True)) for kind, images in explorer.pictures.items()}
    picks = explorer.pictures["query"].ids[:MAX_PICKS]

    @router.get("/api/about")
    def about() -> dict[str, Any]:
        return {
            "title": explorer.title,
            "references": explorer.index.ntotal,
            "threshold": explorer.threshold(),
            "rate": explorer.rule.rate,
            "uncalibrated": explorer.uncalibrated,
            "edits": list_edits(explorer.others),
            "queries": picks,
            "largest": MAX_PICTURE_BYTES,
        }

    @router.post("/api/pictures")
    async def send(request: Request) -> dict[str, str]:
        async with receive_picture(request, receiving) as content:
            return {"picture": await run_in_threadpool(keep, content)}

    @router.post("/api/picks/{query_id:path}")
    def pick(query_id: str) -> dict[str, str]:
        path = paths["query"].get(query_id)
        if path is None:
            raise UserError("The run has no such query.")
        return {"picture": keep(_content(path))}

    @router.post("/api/answers")
    def ask(question: Question) -> dict[str, Any]:
        with working:
            picture = pictures.get(question.picture)
            return answer(explorer, picture, question.edit, question.intensity, question.draw)

    @router.get("/api/pictures/{kind}/{image_id:path}")
    def show(kind: Kind, image_id: str) -> Response:
        path = paths[kind].get(image_id)
        if path is None:
            return JSONResponse({"message": "There is no such picture."}, 404)
        return send_picture(path, SHOWN_SIDE, decoding, "max-age=3600")

    add_page(router, PAGE)
    return router


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise UserError(f"The query's file cannot be read ({error.strerror or error}).") from error
