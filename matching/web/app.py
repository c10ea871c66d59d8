"""The web application of explore.py, of a router: the review or the search service; their pages, and pictures made small."""

import errno
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.matching.results.overlays import encode_jpeg
from image_copies.matching.web.guard import guard
from image_copies.submissions.report.inputs import render

HOST = "127.0.0.1"
MAX_WAITING = 1024  # connections that the system keeps until they are taken


def make_app(router: APIRouter) -> FastAPI:
    """Make the application of a router, with the limits that hold for all."""
    app = FastAPI(title="Copies of pictures", docs_url=None, redoc_url=None)
    app.include_router(router)
    guard(app)
    return app


def serve(open_router: Callable[[], tuple[APIRouter, str]], port: int) -> None:
    """Serve a router until Ctrl-C; it is opened, with its title, once the port is taken. Port 0 is any free one.

    Raises:
        UserError: The port cannot be used, or what is to be served cannot be opened.
    """
    with open_listener(port) as listener:
        router, title = open_router()
        print(f"{title}: http://{HOST}:{listener.getsockname()[1]}   (Ctrl-C stops)", flush=True)
        uvicorn.Server(uvicorn.Config(make_app(router), log_level="warning")).run([listener])


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


def add_page(router: APIRouter, folder: Path) -> None:
    """Serve a page: `index.html` of `folder` at the root, its other files below /page, and the style that all pages share."""
    files = StaticFiles(directory=folder)

    @router.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(folder / "index.html")

    @router.get("/style.css", include_in_schema=False)
    def style() -> Response:
        return Response(render("style.css.jinja"), media_type="text/css")

    @router.get("/page/{name}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        return await files.get_response(name, request.scope)


def send_picture(path: Path, long_side: int, decoding: threading.BoundedSemaphore, cached: str) -> Response:
    """Answer with a picture as JPEG, or with status 404 and the reason where it cannot be decoded; `cached`: Cache-Control."""
    try:
        with decoding:
            small = encode_jpeg(decode_rgb(path, short_side=long_side), long_side)
    except ImageError as error:
        return JSONResponse({"message": f"It {error.problem}."}, 404)
    return Response(small, media_type="image/jpeg", headers={"Cache-Control": cached})
