"""Limits of every page and service of explore.py: sizes, numbers, times, and no answers to pages of other sites."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from image_copies.data.errors import UserError

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


def guard(app: FastAPI) -> None:
    """Add error messages and limits on requests to an application, and reject pages of other sites."""

    @app.exception_handler(UserError)
    async def answer_user_error(_: Request, error: UserError) -> JSONResponse:
        # it may name a file whose name is no text
        message = str(error).encode("utf-8", "backslashreplace").decode()
        return JSONResponse({"message": message}, 400)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid_request(_: Request, error: RequestValidationError) -> JSONResponse:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        return JSONResponse({"message": f"The request's {where} is not as expected."}, 422)

    @app.exception_handler(HTTPException)
    async def answer_http_error(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse(
            {"message": TOO_LARGE if error.status_code == 413 else error.detail}, error.status_code
        )

    @app.exception_handler(ClientDisconnect)
    async def answer_disconnect(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the page was closed while it sent: nobody hears this

    @app.middleware("http")
    async def check_request(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        # every browser says it, other programs need not
        asked_by = request.headers.get("sec-fetch-site", OWN_PAGES[0])
        if request.url.path.startswith("/api/") and asked_by not in OWN_PAGES:
            return JSONResponse({"message": "Only the service's own page is answered."}, 403)
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
            return JSONResponse({"message": "Only the service's own page is answered."}, 403)
        length = request.headers.get("content-length", "")
        if request.method == "POST" and not length.isdecimal():
            return JSONResponse({"message": "The request has no Content-Length. Send one, in bytes."}, 411)
        if length.isdecimal() and int(length) > (
            MAX_PICTURE_BYTES
            if request.url.path in LARGE_REQUESTS
            else min(MAX_PICTURE_BYTES, MAX_REQUEST_BYTES)
        ):
            with suppress(TimeoutError, ClientDisconnect):
                async with asyncio.timeout(MAX_SILENT_SECONDS):
                    async for _ in request.stream():
                        pass  # many clients read no answer before they have sent everything
            return JSONResponse({"message": TOO_LARGE}, 413)
        response = await call_next(request)
        response.headers.update(SAFE_HEADERS)
        return response

    app.add_middleware(_ConcurrencyLimit)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])


class _ConcurrencyLimit:
    """Serve at most MAX_CONCURRENT requests at once; answer others with status 503 and a message."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.active = app, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif self.active >= MAX_CONCURRENT:
            busy = JSONResponse(
                {"message": "The service is busy. Send it again in a moment."}, 503, {"Retry-After": "1"}
            )
            await busy(scope, receive, send)
        else:
            self.active += 1
            try:
                await self.app(scope, receive, send)
            finally:
                self.active -= 1


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
