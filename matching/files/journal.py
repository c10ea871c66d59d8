"""The journal of a plan: every step is recorded before it is done, so that after a kill it can be finished or undone.

One JSON object per line. A step begins with a line of state "begin", which has everything needed to finish or undo it, and ends
with a line of state "done", "left" (nothing was done) or "undone".
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from data.errors import UserError
from data.files import disk_full, is_disk_full, open_regular

Way = Literal["move", "hardlink", "symlink", "delete-to-trash"]
State = Literal["begin", "done", "left", "undone"]


@dataclass(frozen=True)
class Step:
    """What is done to one file.

    Attributes:
        number: Number of the step in its journal, from 1.
        way: What is done to the file.
        file: Its old path.
        place: Its new path.
        kept: The file that is kept instead.
        sha256: Hexadecimal SHA-256 of the file's bytes.
        note: Path of the .trashinfo note with its old path; empty if there is none.
    """

    number: int
    way: Way
    file: str
    place: str
    kept: str
    sha256: str
    note: str = ""


class Journal:
    """An open journal; every line is flushed to disk before the step continues."""

    def __init__(self, path: Path) -> None:
        """Open a journal, creating it if it is new.

        Raises:
            UserError: when the file is not a journal, or may not be written.
        """
        self.path = path
        self.steps: dict[int, Step] = {}
        self.states: dict[int, State] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._read()
            self._file = path.open("ab", buffering=0)  # nothing is left to be written when it is closed on a full disk
        except PermissionError as error:
            raise UserError(
                f"{path} cannot be written ({error.strerror}), and no step is carried out unrecorded. Nothing has been touched: "
                "make its folder writable."
            ) from error

    def begin(self, way: Way, file: Path, place: Path, kept: Path, sha256: str, note: Path | None = None) -> Step:
        """Record a step before it is done, and return it.

        Args:
            way: What will be done to the file.
            file: Its old path.
            place: Its new path.
            kept: The file that is kept instead.
            sha256: Hexadecimal SHA-256 of the file's bytes.
            note: Path of the .trashinfo note with its old path; None for none.

        Raises:
            UserError: The disk is full.
        """
        number = max(self.steps, default=0) + 1
        step = Step(number, way, os.fspath(file), os.fspath(place), os.fspath(kept), sha256, os.fspath(note or ""))
        self.steps[number] = step
        self._write({"state": "begin"} | asdict(step))
        self.states[number] = "begin"
        return step

    def end(self, step: Step, state: State, reason: str = "") -> None:
        """Record how a step ended.

        Args:
            step: The step.
            state: "done", "left" (nothing was done) or "undone".
            reason: Why the file was left alone; empty for none.

        Raises:
            UserError: The disk is full.
        """
        self._write({"state": state, "number": step.number} | ({"reason": reason} if reason else {}))
        self.states[step.number] = state

    def in_state(self, state: State) -> list[Step]:
        """Return the steps in this state, in the order in which they began."""
        return [step for number, step in sorted(self.steps.items()) if self.states[number] == state]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        rest, size = json.dumps(line).encode() + b"\n", self._file.seek(0, os.SEEK_END)
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
        if not os.path.lexists(self.path):
            return
        try:
            with open_regular(self.path) as file:
                text = file.read().decode("utf-8", errors="replace")
        except OSError as error:
            raise UserError(f"{self.path} is not a journal that can be read ({error.strerror or error}).") from error
        for number, line in enumerate(text.splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                if number == len(text.splitlines()) and not text.endswith("\n"):
                    self._cut_last_line(text)  # a kill or a full disk broke it off: what it announced was not begun
                    return
                raise UserError(f"{self.path}, line {number} is not a line of a journal ({error}). It is left alone.") from error

    def _take(self, line: Any) -> None:
        if not isinstance(line, dict):
            raise TypeError(f"it is a {type(line).__name__}")
        state: State = line.pop("state")
        number = line["number"]
        if not isinstance(number, int):
            raise TypeError(f"its number is {str(number)[:40]!r}")
        if state == "begin":
            step = Step(**line)
            if any(not isinstance(value, str) for name, value in asdict(step).items() if name != "number"):
                raise TypeError("a path is not text")
            self.steps[number] = step
        elif number not in self.steps:
            raise KeyError(number)
        self.states[number] = state

    def _cut_last_line(self, text: str) -> None:
        whole = text[: text.rfind("\n") + 1].encode()
        with self.path.open("r+b") as file:
            file.truncate(len(whole))
