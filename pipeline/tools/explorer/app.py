"""The explorer's web application: a page, the answers it asks for, and thumbnails. Nothing that is sent is ever written."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from data.archives import read_bytes
from data.decode import decode_rgb
from data.errors import ImageError, UserError
from data.settings import Settings
from pipeline.tools.explorer.answers import Explorer, Kind, answer
from pipeline.tools.explorer.edits import offered
from pipeline.tools.explorer.pictures import SHOWN_SIDE, Pictures, jpeg
from submissions.report.rendering import render

PAGE = Path(__file__).parent / "page"
LARGEST = 32 * 2**20  # bytes of a picture that is sent
LARGEST_QUESTION = 2**16  # bytes of any other request
LARGE_REQUESTS = {"/api/pictures", "/api/matches", "/api/vectors"}  # the explorer's and the search service's
AT_ONCE = 256  # requests; more are asked to come again
RECEIVED_AT_ONCE = 8  # pictures in memory as bytes; others wait in their connections
DECODED_AT_ONCE = 2  # at most 1.6 GB each: decoding a picture of MAX_IMAGE_PIXELS
LONGEST = 30.0  # seconds that a picture may take to arrive
PICKS = 500  # queries of the run that the page offers
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TOO_LARGE = f"The file is larger than {LARGEST // 2**20} MB."
OWN_PAGES = ("same-origin", "none")  # Sec-Fetch-Site of this page, and of an address that a person typed


class Question(Settings):
    """What the page asks about a picture.

    Attributes:
        picture: A name that `Pictures.add` returned.
        edit: Name of an edit; None leaves the picture as it is.
        intensity: Of the edit, 0…1.
        draw: Which of its random parameters.
    """

    picture: str = Field(max_length=64)
    edit: str | None = Field(None, max_length=64)
    intensity: float = Field(0.5, ge=0, le=1)
    draw: int = Field(0, ge=0, lt=2**31)


def make_app(explorer: Explorer) -> FastAPI:
    """The application; one picture at a time is described, a few are decoded."""
    app = FastAPI(openapi_url=None)
    pictures, working = Pictures(), threading.Lock()
    receiving, decoding = asyncio.Semaphore(RECEIVED_AT_ONCE), threading.BoundedSemaphore(DECODED_AT_ONCE)

    def keep(content: bytes) -> str:
        with decoding:
            return pictures.add(content)

    paths = {kind: dict(zip(images.ids, images.paths, strict=True)) for kind, images in explorer.pictures.items()}
    picks = explorer.pictures["query"].ids[:PICKS]

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        return {
            "title": explorer.title,
            "references": explorer.index.ntotal,
            "threshold": explorer.threshold(),
            "rate": explorer.rate,
            "uncalibrated": explorer.uncalibrated,
            "edits": offered(explorer.others),
            "queries": picks,
            "largest": LARGEST,
        }

    @app.post("/api/pictures")
    async def send(request: Request) -> dict[str, str]:
        if request.headers.get("content-type") != "application/octet-stream":  # what no other site's form can send
            raise UserError("Send the file's bytes as application/octet-stream.")
        async with receiving:
            try:
                content = await asyncio.wait_for(_received(request), LONGEST)
            except TimeoutError:
                raise HTTPException(408, f"The file did not arrive within {LONGEST:g} s.") from None
            return {"picture": await run_in_threadpool(keep, content)}

    @app.post("/api/picks/{query_id:path}")
    def pick(query_id: str) -> dict[str, str]:
        path = paths["query"].get(query_id)
        if path is None:
            raise UserError("The run has no such query.")
        return {"picture": keep(_content(path))}

    @app.post("/api/answers")
    def ask(question: Question) -> dict[str, Any]:
        with working:
            picture = pictures.get(question.picture)
            return answer(explorer, picture, question.edit, question.intensity, question.draw)

    @app.get("/api/pictures/{kind}/{image_id:path}")
    def show(kind: Kind, image_id: str) -> Response:
        path = paths[kind].get(image_id)
        if path is None:
            return JSONResponse({"message": "There is no such picture."}, 404)
        try:
            with decoding:
                small = jpeg(decode_rgb(path, short_side=SHOWN_SIDE))
        except ImageError as error:
            return JSONResponse({"message": f"It {error.problem}."}, 404)
        return Response(small, media_type="image/jpeg", headers={"Cache-Control": "max-age=3600"})

    @app.get("/")
    def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/style.css")
    def style() -> Response:
        return Response(render("style.css.jinja"), media_type="text/css")

    app.mount("/page", StaticFiles(directory=PAGE))
    guard(app)
    return app


async def _received(request: Request) -> bytes:
    """The request's body; whatever it says of its length, no more than LARGEST bytes are kept."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > LARGEST:
            raise HTTPException(413)
    return bytes(content)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise UserError(f"The query's file cannot be read ({error.strerror or error}).") from error


def guard(app: FastAPI) -> None:
    """Messages for what goes wrong, bounds on what is sent, and no answers to pages of other sites."""

    @app.exception_handler(UserError)
    async def wrong(_: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"message": str(error)}, 400)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        return JSONResponse({"message": f"The request's {where} is not as expected."}, 422)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"message": TOO_LARGE if error.status_code == 413 else error.detail}, error.status_code)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the page was closed while it sent: nobody hears this

    @app.middleware("http")
    async def bounded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        asked_by = request.headers.get("sec-fetch-site", OWN_PAGES[0])  # every browser says it, other programs need not
        if request.url.path.startswith("/api/") and asked_by not in OWN_PAGES:
            return JSONResponse({"message": "Only the explorer's own page is answered."}, 403)
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            return JSONResponse({"message": "Only the explorer's own page is answered."}, 403)
        length = request.headers.get("content-length", "")
        if request.method == "POST" and not length.isdecimal():
            return JSONResponse({"message": "The request does not say how long it is."}, 411)
        if length.isdecimal() and int(length) > (
            LARGEST if request.url.path in LARGE_REQUESTS else min(LARGEST, LARGEST_QUESTION)
        ):
            return JSONResponse({"message": TOO_LARGE}, 413)
        response = await call_next(request)
        response.headers.update(SAFE_HEADERS)
        return response

    app.add_middleware(_Bounded)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])


class _Bounded:
    """So many requests at once; others are asked to come again, in words that the page shows."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.active = app, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif self.active >= AT_ONCE:
            busy = JSONResponse({"message": "The explorer is busy. Send it again in a moment."}, 503, {"Retry-After": "1"})
            await busy(scope, receive, send)
        else:
            self.active += 1
            try:
                await self.app(scope, receive, send)
            finally:
                self.active -= 1
