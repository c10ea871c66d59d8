"""A search of what has not changed: the results of the last one stand, and what it said is said again.

What a search finds follows from the bytes, names and dates of its files, its settings, the descriptor, the decisions and the
code. Their fingerprint is kept with that of the results once these are complete; where either differs, the search is done.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from image_copies.data.files import digest_file, is_there, write_text
from image_copies.data.remote import is_remote
from image_copies.data.sources.archives import find_archive
from image_copies.matching.files.companions import find_companions
from image_copies.matching.files.notes import MAX_SIDECAR_BYTES
from image_copies.matching.output import Output, plain
from image_copies.matching.results.folder import JOURNAL, LOCK, MOVED, OWN_INDEX, UNCHANGED

CODE = Path(__file__).parents[2]
PACKAGES = ("matching", "data", "models", "submissions", "pipeline")


@dataclass(frozen=True)
class KeptOutput(Output):
    """Says what Output says, and keeps it."""

    said: list[tuple[str, Any]] = field(default_factory=list)

    def say(self, message: str) -> None:
        """Print a message as Output does, and keep it."""
        self.said.append(("say", message))
        super().say(message)

    def record(self, kind: str, values: Mapping[str, Any]) -> None:
        """Print a result as Output does, and keep it."""
        self.said.append((kind, plain(values)))
        super().record(kind, values)


def fingerprint(settings: Sequence[object], files: Mapping[Path, bytes | None]) -> str:
    """Return the fingerprint of a search, of its settings, written as text, its files with their SHA-256, and the code."""
    digest = hashlib.sha256(repr([*settings, *_list_code()]).encode("utf-8", "surrogateescape"))
    for path in sorted(files):
        digest.update(repr((path, files[path], _describe_file(path))).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def repeat_unchanged(folder: Path, state: str, output: Output) -> int | None:
    """Say what the last search said and return its number of matches, if its fingerprint was this one and its results stand."""
    try:
        kept = json.loads((folder / UNCHANGED).read_text(encoding="utf-8"))
        if (kept["search"], kept["results"]) != (state, _digest_results(folder)):
            return None
        said, matches = [(str(kind), value) for kind, value in kept["said"]], int(kept["matches"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    output.say("nothing has changed since the last search: its results stand")
    for kind, value in said:
        if kind == "say":
            output.say(value)
        else:
            output.record(kind, value)
    return matches


def keep_unchanged(folder: Path, state: str, matches: int, output: KeptOutput) -> None:
    """Keep the fingerprint of a search whose results are complete, and what it said.

    Raises:
        UserError: The disk is full.
    """
    kept = {"search": state, "results": _digest_results(folder), "matches": matches, "said": output.said}
    write_text(folder / UNCHANGED, json.dumps(kept) + "\n")


def _describe_file(path: Path) -> object:
    """Return what a plan depends on besides the bytes: dates, links, and the files that belong to it."""
    if is_remote(path):
        return None
    archive = None if is_there(path) else find_archive(path)
    try:
        states = [(archive or path).lstat(), (archive or path).stat()]
        companions = [path.with_name(name) for name in find_companions(path)] if archive is None else []
        belonging = [_describe_companion(other) for other in companions]
    except OSError:
        return None
    return [(s.st_mode, s.st_ino, s.st_dev, s.st_nlink, s.st_uid, s.st_size, s.st_mtime_ns) for s in states], belonging


def _describe_companion(path: Path) -> object:
    state = path.stat()
    changed = digest_file(path) if state.st_size <= MAX_SIDECAR_BYTES else (state.st_size, state.st_ctime_ns)
    return path.name, path.is_symlink(), changed


def _list_code() -> Iterable[object]:
    """Yield the files of the code with their sizes and dates, and the folders of what is installed, which name its versions."""
    for package in PACKAGES:
        for path in sorted((CODE / package).rglob("*.py")):
            with suppress(OSError):
                yield str(path), path.stat().st_size, path.stat().st_mtime_ns
    yield sorted(path.name for place in sys.path for path in Path(place).glob("*-info"))


def _digest_results(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files of a search's results, of which index and journal are none."""
    digest = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        at_top = Path(place) == folder
        folders[:] = sorted(name for name in folders if not (at_top and name in (OWN_INDEX, MOVED)))
        for name in sorted(names):
            if at_top and (name in (UNCHANGED, JOURNAL) or name.startswith((LOCK, f".{JOURNAL}"))):
                continue
            path = Path(place) / name
            digest.update(os.fsencode(path.relative_to(folder)) + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
