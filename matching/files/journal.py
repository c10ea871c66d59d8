"""The journal of a plan: every step is recorded before it is done, so that after a kill it can be finished or undone.

One JSON object per line. A step begins with a line of state "begin", which has everything needed to finish or undo it, and ends
with a line of state "done", "left" (nothing was done) or "undone".
"""

import json
import os
import secrets
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from image_copies.data.errors import UserError
from image_copies.data.files import disk_full, is_disk_full, open_regular
from image_copies.data.locks import hold_lock_file

BUSY = "another process is carrying out or undoing a plan, and {} records it. Wait for it."
NUMBER_BITS = 53  # integers that every reader of JSON can represent
Way = Literal["move", "hardlink", "symlink", "delete-to-trash"]
Work = Way | Literal["merge"]
MERGE: Work = "merge"  # is done to the sidecar of a kept file
State = Literal["begin", "done", "left", "undone"]


class LeftAloneError(Exception):
    """Raised when a file must not be touched; the message is the reason."""


@dataclass(frozen=True)
class FileStep:
    """What is done to one file.

    Attributes:
        way: What is done to the file.
        file: Its old path.
        place: Its new path.
        kept: The file that is kept instead.
        sha256: Hexadecimal SHA-256 of the file's bytes.
        note: The .trashinfo note with its old path; None if there is none.
        before: Of a sidecar to which notes are added, in place, its text before; empty if there was none.
        number: Number of the step, which no other one has: another machine may write, which no lock here reaches.
    """

    way: Work
    file: Path
    place: Path
    kept: Path
    sha256: str
    note: Path | None = None
    before: str = ""
    number: int = field(default_factory=partial(secrets.randbits, NUMBER_BITS))


STEP: TypeAdapter[FileStep] = TypeAdapter(FileStep)
STATE: TypeAdapter[State] = TypeAdapter(State)


class Journal:
    """An open journal; every line is flushed to disk before the step continues.

    One process at a time has it open: the lock file is next to it, where every machine that can write it finds it.
    """

    def __init__(self, path: Path) -> None:
        """Open a journal, creating it if it is new.

        Raises:
            UserError: when the file is not a journal or may not be written, or another process has it open.
        """
        self.path = path
        self.steps: dict[int, FileStep] = {}
        self.states: dict[int, State] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path):
                open_regular(path).close()  # opening a pipe to write would wait for a reader
            with ExitStack() as held:
                # without a buffer, nothing is left to be written when it is closed on a full disk
                self._file = held.enter_context(path.open("ab", buffering=0))
                held.enter_context(hold_lock_file(path.with_name(f".{path.name}.lock"), BUSY.format(path)))
                self._read()
                self._held = held.pop_all()
        except PermissionError as error:
            raise UserError(
                f"{path} cannot be written ({error.strerror}), and no step is carried out unrecorded. Nothing has been touched: "
                "make its folder writable."
            ) from error
        except OSError as error:
            if is_disk_full(error):
                raise disk_full(path) from error
            raise UserError(
                f"{path} is not a journal that can be read ({error.strerror or error})."
            ) from error

    def begin(self, step: FileStep) -> None:
        """Record a step before it is done.

        Raises:
            UserError: The disk is full.
        """
        self._write({"state": "begin"} | asdict(step))
        self.steps[step.number], self.states[step.number] = step, "begin"

    def end(self, step: FileStep, state: State, reason: str = "") -> None:
        """Record how a step ended: "done", "left" (nothing was done) with the reason, or "undone".

        Raises:
            UserError: The disk is full.
        """
        self._write({"state": state, "number": step.number, "reason": reason})
        self.states[step.number] = state

    def in_state(self, state: State) -> list[FileStep]:
        """Return the steps in this state, in the order in which they began."""
        return [step for number, step in self.steps.items() if self.states[number] == state]

    def close(self) -> None:
        """Close the file, and let other processes open it."""
        self._held.close()

    def _write(self, line: dict[str, Any]) -> None:
        rest = json.dumps(line, default=os.fspath).encode() + b"\n"
        size = self._file.seek(0, os.SEEK_END)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(size)  # no half line is left
            if is_disk_full(error):
                raise disk_full(self.path) from error
            raise

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].decode(errors="replace").splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                wrong = error.errors()[0]["loc"][-1:] if isinstance(error, ValidationError) else error
                raise UserError(
                    f"{self.path}, line {number} is not a line of a journal ({wrong}). It is left alone."
                ) from error
        if whole < len(content):  # a kill or a full disk broke a line off: what it announced was not begun
            os.truncate(self.path, whole)

    def _take(self, line: Any) -> None:
        if not isinstance(line, dict):
            raise TypeError("it is no object")
        state = STATE.validate_python(line.pop("state"))
        number = line["number"]
        if (state == "begin") == (number in self.steps):
            raise ValueError(f"step {number} {'begins twice' if state == 'begin' else 'was not begun'}")
        if state == "begin":
            step = STEP.validate_python(line | {"note": line.get("note") or None})
            number = step.number
            self.steps[number] = step
        self.states[number] = state
