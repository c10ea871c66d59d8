"""What every page and service of explore.py shares: where it listens, its limits, its files, no answers to other sites."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import uvicorn
from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect

from image_copies.data.errors import ImageError, UserError
from image_copies.submissions.report.inputs import render

PAGES = Path(__file__).parent / "pages"
HOST = "127.0.0.1"
MAX_CONNECTIONS = 1024  # more are asked to come again
MAX_PICTURE_BYTES = 32 * 2**20  # bytes of a picture that is sent
MAX_REQUEST_BYTES = 2**16  # bytes of any other request
LARGE_REQUESTS = {"/api/matches", "/api/vectors"}
# of all pictures that arrive or wait; others wait in their connections
MAX_HELD_BYTES = 16 * MAX_PICTURE_BYTES
MAX_CONCURRENT_DECODES = 2
MAX_ARRIVAL_SECONDS = 30.0  # seconds that a request may take to arrive
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OWN_PAGES = ("same-origin", "none")  # Sec-Fetch-Site of this page, and of an address that a person typed


def serve(open_app: Callable[[], tuple[FastAPI, str]], port: int) -> None:
    """Serve an application until Ctrl-C; it is opened, with its title, once the port is taken. Port 0 is any free one.

    Raises:
        UserError: The port cannot be used, or what is to be served cannot be opened.
    """
    with open_listener(port) as listener:
        app, title = open_app()
        print(f"{title}: http://{HOST}:{listener.getsockname()[1]}   (Ctrl-C stops)", flush=True)
        uvicorn.Server(configure(app, "warning")).run([listener])


def configure(app: FastAPI, log_level: str) -> uvicorn.Config:
    """Return how an application is served."""
    return uvicorn.Config(app, log_level=log_level, limit_concurrency=MAX_CONNECTIONS)


def open_listener(port: int) -> socket.socket:
    """Open a listening socket that only this machine can reach.

    Raises:
        UserError: The port cannot be used.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(MAX_CONNECTIONS)  # at once: until then another service could take the port as well
    except OSError as error:
        listener.close()
        raise UserError(
            f"port {port} of {HOST} cannot be used ({error.strerror}). Give one from 1024 to 65535 with --port, or 0 for any."
        ) from error
    return listener


def make_app(router: APIRouter, page: str) -> FastAPI:
    """Make an application of routes and the files of a page, with the limits that hold for all, and messages for errors."""
    app = FastAPI(title="Copies of pictures", docs_url=None, redoc_url=None)
    app.include_router(router)

    @app.get("/style.css", include_in_schema=False)
    def style() -> Response:
        return Response(render("style.css.jinja"), media_type="text/css")

    @app.exception_handler(UserError)
    async def answer_user_error(_: Request, error: UserError) -> JSONResponse:
        said = f"The file {error.problem}." if isinstance(error, ImageError) else str(error)
        return _answer_problem(said, 400)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid_request(_: Request, error: RequestValidationError) -> JSONResponse:
        # not what was sent, which need not be text or JSON
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        return _answer_problem(f"The request's {where} is not as expected.", 422)

    @app.exception_handler(ClientDisconnect)
    async def answer_disconnect(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the page was closed while it sent: nobody hears this

    @app.middleware("http")
    async def check_request(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await _refuse(request) or await call_next(request)
        response.headers.update(SAFE_HEADERS)
        return response

    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app.mount("/", StaticFiles(directory=PAGES / page, html=True))
    return app


def _answer_problem(message: str, status: int) -> JSONResponse:
    """Answer with a message, as FastAPI does; it may name a file whose name is no text."""
    return JSONResponse({"detail": message.encode("utf-8", "backslashreplace").decode()}, status)


async def _refuse(request: Request) -> Response | None:
    """Return the answer to a request that is not looked at: of another site's page, too large, or of unknown length."""
    asked_by = request.headers.get("sec-fetch-site", "none")  # every browser says it
    origin = request.headers.get("origin")
    foreign = request.url.path.startswith("/api/") and asked_by not in OWN_PAGES
    if foreign or (origin is not None and origin.partition("://")[2] != request.headers.get("host")):
        return _answer_problem("Only the service's own page is answered.", 403)
    length = request.headers.get("content-length", "")
    sized = length.isdecimal() and "transfer-encoding" not in request.headers  # which overrides the length
    if request.method == "POST" and not sized:
        return _answer_problem("Send the length in bytes as Content-Length, and no Transfer-Encoding.", 411)
    most = MAX_PICTURE_BYTES if request.url.path in LARGE_REQUESTS else MAX_REQUEST_BYTES
    if not sized or int(length) <= most:
        return None
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(MAX_ARRIVAL_SECONDS):
            async for _ in request.stream():
                pass  # many clients read no answer before they have sent everything
    return _answer_problem(f"What is sent is larger than {most / 2**20:g} MB.", 413)


class Room:
    """Room for the bytes of the pictures that are sent; a picture for which there is none now waits in its connection."""

    def __init__(self, most: int) -> None:
        self._free, self._changed = most, asyncio.Condition()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold the room of so many bytes, at most all of it."""
        async with self._changed:
            await self._changed.wait_for(lambda: size <= self._free)
            self._free -= size
        try:
            yield
        finally:
            async with self._changed:
                self._free += size
                self._changed.notify_all()


@asynccontextmanager
async def receive_picture(request: Request, room: Room) -> AsyncIterator[bytes]:
    """Yield the bytes that are sent, holding as much of a room as they take.

    Raises:
        UserError: They are not sent as bytes, which no other site's form can do.
        HTTPException: They take longer than MAX_ARRIVAL_SECONDS.
    """
    if request.headers.get("content-type") != "application/octet-stream":
        raise UserError("Send the file's bytes as application/octet-stream.")
    async with room.hold(int(request.headers["content-length"])):
        try:
            async with asyncio.timeout(MAX_ARRIVAL_SECONDS):
                content = await request.body()
        except TimeoutError:
            said = f"The file did not arrive within {MAX_ARRIVAL_SECONDS:g} s."
            raise HTTPException(408, said) from None
        yield content
