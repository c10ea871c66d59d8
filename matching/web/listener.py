"""Where the pages and services of explore.py listen: on this machine alone."""

import socket

import uvicorn
from fastapi import FastAPI

from image_copies.data.errors import UserError

HOST = "127.0.0.1"
MAX_WAITING = 1024  # connections that the system keeps until they are taken


def open_listener(port: int) -> socket.socket:
    """Open a listening socket that only this machine can reach; port 0 takes a free one.

    Raises:
        UserError: The port cannot be used.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(MAX_WAITING)  # at once: until then another explorer could take the port as well
    except (OSError, OverflowError) as error:
        listener.close()
        raise UserError(f"port {port} of {HOST} cannot be used ({error}). Choose another one with --port.") from error
    return listener


def run_until_stopped(app: FastAPI, listener: socket.socket, title: str) -> None:
    """Say where the application is found and serve it until Ctrl-C."""
    print(f"{title}: http://{HOST}:{listener.getsockname()[1]}   (Ctrl-C stops)", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
