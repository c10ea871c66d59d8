"""Files whose names end with a digest of their bytes, Faiss indexes among them: a damaged one is recognised before it is used.

Their bytes are read for that when they are new here, and by `check_files`; otherwise size and time tell whether a file is the one
that was read.
"""

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from image_copies.data.errors import UserError
from image_copies.data.files import digest_file, read_json, whole_file, write_text

if TYPE_CHECKING:
    import faiss

INTACT = "intact.json"  # in the folder of the files: size and time of those that had their digest when they were read last
NAME = re.compile(r".+-[0-9a-f]{16}\.(npy|faiss)")
State = list[int]  # size in bytes and modification time in nanoseconds


def write_content(content: bytes | memoryview, folder: Path, name: str, ending: str) -> str:
    """Write bytes as `<name>-<digest><ending>`; return the digest: the first 16 hexadecimal digits of their SHA-256.

    Raises:
        UserError: The disk is full.
    """
    digest = hashlib.sha256(content).hexdigest()[:16]
    with whole_file(folder / f"{name}-{digest}{ending}") as temporary:
        temporary.write_bytes(content)
    path = folder / f"{name}-{digest}{ending}"
    _note(path, _read_state(path))
    return digest


def is_intact(path: Path) -> bool:
    """Whether a file is there and has the digest in its name; if size and time are those of the last reading, it is not read."""
    try:
        state = _read_state(path)
        if read_json(path.parent / INTACT).get(path.name) == state:
            return True
        intact = _has_digest(path)
    except OSError:
        return False
    if intact:
        _note(path, state)
    return intact


def check_files(folder: Path) -> tuple[int, list[Path]]:
    """Read all such files of a folder; return how many there are and the damaged ones, which are then never taken for intact."""
    paths = [path for path in sorted(folder.iterdir()) if NAME.fullmatch(path.name)]
    damaged = [path for path in paths if not _has_digest(path)]
    for path in damaged:
        _note(path, None)
    return len(paths), damaged


def _has_digest(path: Path) -> bool:
    return path.stem.rpartition("-")[2] == digest_file(path)[:16]


def _read_state(path: Path) -> State:
    state = path.stat()
    return [state.st_size, state.st_mtime_ns]


def _note(path: Path, state: State | None) -> None:
    """Note the state of a file that has its digest; None for one that has not.

    Where that cannot be written, or another process writes at the same moment, a file is read once more than it need be.
    """
    noted = path.parent / INTACT
    known = {name: state for name, state in read_json(noted).items() if (path.parent / name).exists()} | {path.name: state}
    with suppress(OSError, UserError):
        write_text(noted, json.dumps(known, indent=0))


def missing_file_error(path: Path) -> UserError:
    """Return the error for a file that is missing or damaged although it was there a moment ago."""
    return UserError(
        f"{path} is missing or damaged. All nodes must share the index, under the same path; if another process has changed "
        "it meanwhile, repeat the command."
    )


def write_index(index: "faiss.Index", folder: Path, name: str) -> str:
    """Write a Faiss index as `<name>-<digest>.faiss`; return the digest.

    Raises:
        UserError: The disk is full.
    """
    import faiss  # imported here: exact search works without it

    return write_content(faiss.serialize_index(index).data, folder, name, ".faiss")


def open_intact_index(path: Path) -> "faiss.Index | None":
    """Map a Faiss index from disk; None if the file is missing or does not have the digest in its name."""
    import faiss

    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC) if is_intact(path) else None
    except RuntimeError:
        return None  # another process has removed it


def require_index(path: Path) -> "faiss.Index":
    """Map a Faiss index that is there, or was a moment ago.

    Raises:
        UserError: It is missing or damaged.
    """
    index = open_intact_index(path)
    if index is None:
        raise missing_file_error(path)
    return index
