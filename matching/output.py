"""What match.py says: words for people, JSON lines for programs."""

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from image_copies.data.errors import text_of

PERIOD = 60.0  # seconds between messages on how far the work is


@dataclass(frozen=True)
class Output:
    """Where messages go: with `json`, results are JSON lines on standard output, and messages go to standard error.

    Nothing is said if `quiet`.
    """

    json: bool = False
    quiet: bool = False

    def say(self, message: str) -> None:
        """Print a message for a person."""
        if not self.quiet:
            with _without_bars():
                print(message, file=sys.stderr if self.json else sys.stdout, flush=True)

    @contextmanager
    def say_how_far(self) -> Iterator[None]:
        """Say every minute how far the work in the block is, where messages go to no terminal."""
        from tqdm import tqdm  # imported here, as in _without_bars

        done = Event()

        def watch() -> None:
            while not done.wait(PERIOD):
                for bar in list(tqdm._instances):  # type: ignore[attr-defined]
                    self.say(f"{bar.desc}: {bar.n:,} of {bar.total or 0:,} {bar.unit}s")

        if not os.isatty(2 if self.json else 1):
            Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def silence(self) -> AbstractContextManager[object]:
        """Show no other messages and no progress bars while the block runs, with --quiet."""
        return redirect_stderr(io.StringIO()) if self.quiet else nullcontext()

    def record(self, kind: str, values: Mapping[str, Any]) -> None:
        """Print one result as a JSON line, where JSON is asked for."""
        if self.json:
            with _without_bars():
                print(json.dumps({"type": kind, **values}, default=text_of), flush=True)


def _without_bars() -> AbstractContextManager[object]:
    """Take the bars off the terminal while the block runs."""
    from tqdm import tqdm  # imported here: when it is imported, it reads whether there are to be any

    return tqdm.external_write_mode()


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 file" or "2 files"."""
    return f"{number} {noun}{'s' * (number != 1)}"
