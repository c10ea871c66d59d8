"""What every page and service of explore.py shares: where it listens, its limits, its files, no answers to other sites."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect

from image_copies.data.errors import UserError
from image_copies.submissions.report.inputs import render

HOST = "127.0.0.1"
MAX_WAITING = 1024  # connections that the system keeps until they are taken
MAX_PICTURE_BYTES = 32 * 2**20  # bytes of a picture that is sent
MAX_REQUEST_BYTES = 2**16  # bytes of any other request
LARGE_REQUESTS = {"/api/matches", "/api/vectors"}
MAX_CONCURRENT = 2048  # requests; most of them wait in their connections, more are asked to come again
MAX_CONCURRENT_UPLOADS = 8  # pictures in memory as bytes; others wait in their connections
MAX_CONCURRENT_DECODES = 2
SMALL_BYTES = 2**18  # bytes that a picture may have sent without taking the place of another
MAX_ARRIVAL_SECONDS = 30.0  # seconds that a picture may take to arrive
MAX_SILENT_SECONDS = 5.0  # seconds that nothing of it may arrive
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TOO_LARGE = f"The file is larger than {MAX_PICTURE_BYTES // 2**20} MB."
OWN_PAGES = ("same-origin", "none")  # Sec-Fetch-Site of this page, and of an address that a person typed


def serve(open_app: Callable[[], tuple[FastAPI, str]], port: int) -> None:
    """Serve an application until Ctrl-C; it is opened, with its title, once the port is taken. Port 0 is any free one.

    Raises:
        UserError: The port cannot be used, or what is to be served cannot be opened.
    """
    with open_listener(port) as listener:
        app, title = open_app()
        print(f"{title}: http://{HOST}:{listener.getsockname()[1]}   (Ctrl-C stops)", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


def open_listener(port: int) -> socket.socket:
    """Open a listening socket that only this machine can reach.

    Raises:
        UserError: The port cannot be used.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(MAX_WAITING)  # at once: until then another service could take the port as well
    except OSError as error:
        listener.close()
        why = {errno.EADDRINUSE: "is taken by another program", errno.EACCES: "is reserved for the system"}
        said = why.get(error.errno or 0, f"cannot be used ({error.strerror})")
        raise UserError(
            f"port {port} of {HOST} {said}. Give one from 1024 to 65535 with --port; 0 is any free one."
        ) from error
    return listener


def answer_problem(message: str, status: int) -> JSONResponse:
    """Answer with a message; it may name a file whose name is no text."""
    return JSONResponse({"message": message.encode("utf-8", "backslashreplace").decode()}, status)


def make_app(router: APIRouter, page: Path) -> FastAPI:
    """Make an application of routes and the files of a page, with the limits that hold for all, and messages for errors."""
    app = FastAPI(title="Copies of pictures", docs_url=None, redoc_url=None)
    app.include_router(router)
    active = 0

    @app.get("/style.css", include_in_schema=False)
    def style() -> Response:
        return Response(render("style.css.jinja"), media_type="text/css")

    @app.exception_handler(UserError)
    async def answer_user_error(_: Request, error: UserError) -> JSONResponse:
        return answer_problem(str(error), 400)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid_request(_: Request, error: RequestValidationError) -> JSONResponse:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        return answer_problem(f"The request's {where} is not as expected.", 422)

    @app.exception_handler(HTTPException)
    async def answer_http_error(_: Request, error: HTTPException) -> JSONResponse:
        return answer_problem(TOO_LARGE if error.status_code == 413 else error.detail, error.status_code)

    @app.exception_handler(ClientDisconnect)
    async def answer_disconnect(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the page was closed while it sent: nobody hears this

    @app.middleware("http")
    async def check_request(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        nonlocal active
        if active >= MAX_CONCURRENT:
            busy = answer_problem("The service is busy. Send it again in a moment.", 503)
            busy.headers["Retry-After"] = "1"  # second
            return busy
        active += 1
        try:
            response = await _refuse(request) or await call_next(request)
        finally:
            active -= 1
        response.headers.update(SAFE_HEADERS)
        return response

    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app.mount("/", StaticFiles(directory=page, html=True))
    return app


async def _refuse(request: Request) -> Response | None:
    """Return the answer to a request that is not looked at: of another site's page, too large, or of unknown length."""
    asked_by = request.headers.get("sec-fetch-site", OWN_PAGES[0])  # every browser says it
    origin = request.headers.get("origin")
    foreign = request.url.path.startswith("/api/") and asked_by not in OWN_PAGES
    if foreign or (origin is not None and origin.partition("://")[2] != request.headers.get("host")):
        return answer_problem("Only the service's own page is answered.", 403)
    length = request.headers.get("content-length", "")
    if request.method == "POST" and not length.isdecimal():
        return answer_problem("The request has no Content-Length. Send one, in bytes.", 411)
    most = MAX_PICTURE_BYTES if request.url.path in LARGE_REQUESTS else MAX_REQUEST_BYTES
    if not length.isdecimal() or int(length) <= most:
        return None
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(MAX_SILENT_SECONDS):
            async for _ in request.stream():
                pass  # many clients read no answer before they have sent everything
    return answer_problem(TOO_LARGE, 413)


class PixelRoom:
    """Room for the pixels of the pictures that are looked at; a picture for which there is none now waits."""

    def __init__(self, most: int) -> None:
        self._free, self._changed = most, asyncio.Condition()

    @asynccontextmanager
    async def hold(self, pixels: int) -> AsyncIterator[None]:
        """Hold the room of so many pixels, at most all of it."""
        async with self._changed:
            await self._changed.wait_for(lambda: pixels <= self._free)
            self._free -= pixels
        try:
            yield
        finally:
            async with self._changed:
                self._free += pixels
                self._changed.notify_all()


@asynccontextmanager
async def receive_picture(request: Request, places: asyncio.Semaphore) -> AsyncIterator[bytes]:
    """Yield the bytes that are sent, holding one of `places`; while a picture of SMALL_BYTES still arrives, it needs none.

    Raises:
        UserError: they are not sent as bytes, which no other site's form can do.
        HTTPException: they are too many, take longer than MAX_ARRIVAL_SECONDS, or stop for MAX_SILENT_SECONDS.
    """
    if request.headers.get("content-type") != "application/octet-stream":
        raise UserError("Send the file's bytes as application/octet-stream.")
    content, clock = bytearray(), asyncio.get_running_loop()
    async with AsyncExitStack() as held:
        try:
            async with asyncio.timeout(MAX_SILENT_SECONDS) as limit:
                last = clock.time() + MAX_ARRIVAL_SECONDS
                async for part in request.stream():
                    content += part
                    if len(content) > MAX_PICTURE_BYTES:  # whatever length was stated
                        raise HTTPException(413)
                    if len(content) - len(part) <= SMALL_BYTES < len(content):
                        limit.reschedule(None)
                        await held.enter_async_context(places)
                        last = clock.time() + MAX_ARRIVAL_SECONDS
                    limit.reschedule(min(last, clock.time() + MAX_SILENT_SECONDS))
        except TimeoutError:
            raise HTTPException(
                408,
                f"The file did not arrive: it may take {MAX_ARRIVAL_SECONDS:g} s, and pause for {MAX_SILENT_SECONDS:g} s.",
            ) from None
        if len(content) <= SMALL_BYTES:
            await held.enter_async_context(places)
        yield bytes(content)
