"""explore.py's work: open the run, serve the page on this machine alone."""

import argparse
import socket

import uvicorn

from data.errors import UserError
from pipeline.run.run import open_existing_run
from pipeline.tools.explorer.answers import open_explorer
from pipeline.tools.explorer.app import make_app

HOST = "127.0.0.1"
AT_ONCE = 64  # connections; more are told to come later


def explore(options: argparse.Namespace) -> None:
    """Serve until Ctrl-C. UserError: the run lacks a step, the port is taken, the rate is none."""
    if not 0 < options.false_alarms < 1:
        raise UserError(f"--false-alarms {options.false_alarms}: a rate per query between 0 and 1, such as 0.001.")
    door = listening(options.port)
    with door:
        run = open_existing_run(options.run, options.data)
        explorer = open_explorer(run, options.false_alarms)
        print(f"{run.folder}: http://{HOST}:{door.getsockname()[1]}   (Ctrl-C stops)", flush=True)
        uvicorn.Server(uvicorn.Config(make_app(explorer), log_level="warning", limit_concurrency=AT_ONCE)).run([door])


def listening(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 takes a free one. UserError when the port cannot be had."""
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((HOST, port))
        door.listen()  # at once: until then another explorer could take the port as well
    except (OSError, OverflowError) as error:
        door.close()
        raise UserError(f"port {port} of {HOST} cannot be used ({error}). Choose another one with --port.") from error
    return door
