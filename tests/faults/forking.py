"""A process that imports everything once, then forks a child for each command and kills it at the requested moment.

Started by `harness.py`, one request and one answer a line, as JSON. A child is a command of the project as a user runs it, but
for the imports, which it has already; it leads a process group of its own, so that its workers die with it.
"""

import atexit
import gc
import importlib
import json
import mmap
import multiprocessing
import os
import resource
import runpy
import select
import signal
import sqlite3
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOMS = ("data", "augmentations", "models", "submissions", "matching", "pipeline")
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.utime"}
LONGEST = 120.0  # seconds; a command that takes longer hangs


def import_everything() -> None:
    """All rooms' modules and with them the libraries; nothing is computed, so that no thread is lost in a fork."""
    for room in ROOMS:
        folder = Path(importlib.import_module(f"image_copies.{room}").__path__[0])
        for source in sorted(folder.rglob("*.py")):
            name = source.stem
            # the steps' commands and what leads scripts to the code are run, not imported; one is an extra
            if not name[0].isdigit() and name not in ("__init__", "image_copies", "threatexchange"):
                below = source.relative_to(folder).with_suffix("")
                importlib.import_module(".".join(["image_copies", room, *below.parts]))


class Moments:
    """Counts the changes that a command makes to files, in all of its processes, and kills them before a given change."""

    def __init__(self) -> None:
        self._count = mmap.mmap(-1, 8)  # shared with forked workers

    def count(self) -> int:
        """Changes so far."""
        return int(struct.unpack("q", self._count[:8])[0])

    def watch(self, folder: str, last: int | None) -> None:
        """From now on in this process: count changes below a folder, and let no more than `last` happen."""
        flush, connect = os.fsync, sqlite3.connect

        def note() -> None:
            number = self.count()
            if number == last:
                os.killpg(0, signal.SIGKILL)
            self._count[:8] = struct.pack("q", number + 1)

        def flush_noted(handle: int) -> None:
            note()
            flush(handle)

        def heard(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open":
                path, _, flags = arguments
                if flags & (os.O_WRONLY | os.O_RDWR) and isinstance(path, (str, bytes)):
                    name = os.fsdecode(path)
                    if not name.startswith("/") or name.startswith(folder):
                        note()
            elif event in CHANGES:
                note()

        def connect_noted(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(lambda statement: note())
            return connection

        os.fsync, sqlite3.connect = flush_noted, connect_noted  # type: ignore[assignment]  # the second is overloaded
        sys.addaudithook(heard)


def replace(module: str, **names: Any) -> None:
    """Give names of a module other values; they must be there."""
    inside = importlib.import_module(module).__dict__
    assert not names.keys() - inside.keys(), f"{module} has no {names.keys() - inside.keys()}"
    inside.update(names)


def save_at_every_step() -> None:
    """A training saves its state after every step instead of twice a minute."""
    replace("image_copies.models.training.trainer", STEPS_PER_CHECK=1)
    replace("image_copies.models.training.state", SAVE_INTERVAL_SECONDS=0.0, SAVING_PAUSE=0.0)


def fork_workers() -> None:
    """Fork the workers that edit or draw, so that they need not import everything again."""
    replace("image_copies.data.process", get_context=lambda _: multiprocessing.get_context("fork"), FEW=4)


def commit_often() -> None:
    """An index is written after every 8 pictures."""
    replace("image_copies.matching.index.filling", choose_batch=lambda networks, settings: 8)


PATCHES: dict[str, Callable[[], None]] = {
    function.__name__: function for function in (save_at_every_step, fork_workers, commit_often)
}


def run_command(request: dict[str, Any], moments: Moments) -> None:
    """In the child: be the command, with whatever is to go wrong, and end as it does."""
    os.setsid()
    with Path(request["log"]).open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["where"])
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # found again
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in request["patches"]:
        PATCHES[name]()
    if request["largest_file"] is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"], request["largest_file"]))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.argv = [request["script"], *request["arguments"]]
    code = 0
    moments.watch(request["where"], request["last_change"])
    try:
        runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def workers_of(process: int) -> list[int]:
    """The children that a process has forked to work for it, in the order of their numbers; not git, which it asks, too."""
    found, own = [], Path("/proc/self/cmdline").read_bytes()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            if parent == process and path.with_name("cmdline").read_bytes() == own:
                found.append(int(path.parent.name))
    return sorted(found)


def wait_for(process: int, seconds: float) -> bool:
    """Whether a process ends within this time."""
    handle = os.pidfd_open(process)
    try:
        return bool(select.select([handle], [], [], max(0.0, seconds))[0])
    finally:
        os.close(handle)


def kill_a_worker(process: int, delay: float) -> bool:
    """Kill one of the workers of a command `delay` seconds after it has some; whether it ever had one."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end and not workers_of(process):
        if wait_for(process, 0.005):
            return False
    if wait_for(process, delay):
        return False
    workers = workers_of(process)
    if workers:
        with suppress(ProcessLookupError):
            os.kill(workers[int(1000 * delay) % len(workers)], signal.SIGKILL)
    return bool(workers)


def delay_of(request: dict[str, Any], process: int, moments: Moments) -> float:
    """The delay of a request; where it counts from the first change of a file, wait for that."""
    end = time.monotonic() + LONGEST
    while request["after_a_change"] and not moments.count() and time.monotonic() < end and not wait_for(process, 0.002):
        pass
    return float(request["delay"])


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run a command in a child and do to it what the request asks for."""
    moments, started = Moments(), time.monotonic()
    process = os.fork()
    if process == 0:
        run_command(request, moments)
    struck = False
    if request["worker_delay"] is not None:
        struck = kill_a_worker(process, request["worker_delay"])
    elif request["delay"] is not None and not wait_for(process, delay_of(request, process, moments)):
        struck = True
        send = os.killpg if request["to_group"] else os.kill
        with suppress(ProcessLookupError):
            send(process, request["signal"])
    hung = not wait_for(process, LONGEST)
    with suppress(ProcessLookupError):  # what hangs, and what a killed process has left behind
        os.killpg(process, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return {
        "code": status,
        "seconds": time.monotonic() - started,
        "changes": moments.count(),
        "struck": struck,
        "hung": hung,
    }


def main() -> None:
    """Answer requests until the pipe is closed."""
    requests, answers = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an import prints is no answer
    import_everything()
    gc.collect()
    gc.freeze()  # or a child's collector would copy every page
    print("ready", file=answers, flush=True)
    for line in requests:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
