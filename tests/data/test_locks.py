"""A process that works in a folder keeps others out; a process that has died does not."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.errors import UserError
from image_copies.data.locks import LOCK_NAME, SESSION_VARIABLE, _go_on_without, hold_folder, hold_lock_file

TOP = Path(__file__).parents[2]
HOLD = """
import sys, time
sys.modules["fcntl"] = None  # as on systems that have none
from pathlib import Path
from image_copies.data.locks import hold_folder
with hold_folder(Path(sys.argv[1]), "01_train one"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that works in the folder."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment, cwd=TOP)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_second_process_is_refused_and_learns_who_the_first_is(tmp_path: Path) -> None:
    with holder(tmp_path / "run") as first:
        message = rf"run is in use \(01_train one, process {first.pid} on .*, since 20.*name another folder"
        with pytest.raises(UserError, match=message), hold_folder(tmp_path / "run", "02_embed"):
            pass


def test_a_killed_holder_keeps_nobody_out(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.kill()
        first.wait()
        with hold_folder(tmp_path, "02_embed"):
            pass


def test_a_script_holds_the_folder_between_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as script:
        for session, doing in ((str(script.pid), "00_augment"), (str(script.pid), "01_train")):
            monkeypatch.setenv(SESSION_VARIABLE, session)
            with hold_folder(tmp_path, doing):
                pass
        monkeypatch.delenv(SESSION_VARIABLE)
        with pytest.raises(UserError, match=rf"01_train, process {script.pid}"), hold_folder(tmp_path, "02_embed"):
            pass
        monkeypatch.setenv(SESSION_VARIABLE, str(script.pid))
        with hold_folder(tmp_path, "01_train"):
            pass
        monkeypatch.delenv(SESSION_VARIABLE)
        script.communicate(b"\n")
    with hold_folder(tmp_path, "02_embed"):
        pass


def test_another_process_of_the_same_number_is_not_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SESSION_VARIABLE, "1")  # a process that always runs
    monkeypatch.setattr("image_copies.data.locks._read_start", lambda process: "earlier")
    with hold_folder(tmp_path, "00_augment"):
        pass
    monkeypatch.undo()
    if Path("/proc/1/stat").exists():
        with hold_folder(tmp_path, "02_embed"):
            pass


def test_a_forked_worker_does_not_keep_the_lock(tmp_path: Path) -> None:
    """Data-loading workers outlive a killed parent by seconds."""
    fork = "    import os\n    if not os.fork():\n        os.write(1, b'%d\\n' % os.getpid())\n"
    script = HOLD.replace("    time.sleep", fork + "    time.sleep")
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=TOP)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    worker = int(process.stdout.readline())
    process.kill()
    process.wait()
    try:
        with hold_folder(tmp_path, "02_embed"):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_folder_that_cannot_be_locked_is_named_and_so_is_a_full_disk(tmp_path: Path) -> None:
    """The message asked for a writable folder and a whole lock file."""
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is a file"), hold_folder(tmp_path / "file", "match.py"):
        pass
    (tmp_path / LOCK_NAME).write_bytes(b"no database" * 100)
    with pytest.raises(UserError, match=r"cannot be locked .* delete that"), hold_folder(tmp_path, "match.py"):
        pass
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    with pytest.raises(UserError, match=r"the disk is full.*make room"):
        _go_on_without(tmp_path, full)


def test_a_read_only_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hold_folder(tmp_path, "02_embed"):
        pass
    connect = sqlite3.connect

    def read_only(path: Path, **options: Any) -> sqlite3.Connection:  # root may write whatever the rights say
        opened: sqlite3.Connection = connect(f"{path.as_uri()}?mode=ro", uri=True, **options)
        return opened

    monkeypatch.setattr(sqlite3, "connect", read_only)
    with pytest.raises(UserError, match=r"cannot be written.*\.in-use is read-only"), hold_folder(tmp_path, "02_embed"):
        pass


def test_a_lock_file_is_held_by_one_process(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()  # as left by an earlier version
    with (
        hold_lock_file(tmp_path / ".lock", "busy"),
        pytest.raises(UserError, match=r"^busy$"),
        hold_lock_file(tmp_path / ".lock", "busy"),
    ):
        pass
    with hold_lock_file(tmp_path / ".lock", "busy"):
        pass
