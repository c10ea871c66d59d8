"""The web application of explore.py: one for the review, one for the search service, each of which is a router."""

import errno
import socket
from collections.abc import Callable

import uvicorn
from fastapi import APIRouter, FastAPI

from image_copies.data.errors import UserError
from image_copies.matching.web.guard import guard

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
        raise UserError(f"port {port} of {HOST} {said}. Give one from 1024 to 65535 with --port; 0 is any free one.") from error
    return listener
