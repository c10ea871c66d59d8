"""Files whose names end with a digest of their bytes, Faiss indexes among them: a damaged one is recognised before it is used."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from image_copies.data.errors import UserError
from image_copies.data.files import digest_file, whole_file

if TYPE_CHECKING:
    import faiss


def write_content(content: bytes | memoryview, folder: Path, name: str, ending: str) -> str:
    """Write bytes as `<name>-<digest><ending>`; return the digest: the first 16 hexadecimal digits of their SHA-256.

    Raises:
        UserError: The disk is full.
    """
    digest = hashlib.sha256(content).hexdigest()[:16]
    with whole_file(folder / f"{name}-{digest}{ending}") as temporary:
        temporary.write_bytes(content)
    return digest


def is_intact(path: Path) -> bool:
    """Whether a file is there and has the digest in its name."""
    try:
        return path.stem.rpartition("-")[2] == digest_file(path)[:16]
    except OSError:
        return False


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
