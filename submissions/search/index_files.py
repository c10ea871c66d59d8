"""Faiss indexes in files whose names end with a digest of their bytes: a damaged file is recognised before it is used."""

import hashlib
from pathlib import Path

import faiss

from image_copies.data.errors import UserError
from image_copies.data.files import digest_file, whole_file


def write_index(index: faiss.Index, folder: Path, name: str) -> str:
    """Write a Faiss index as `<name>-<digest>.faiss`; the digest, which is returned, is 16 hexadecimal digits of its SHA-256.

    Raises:
        UserError: The disk is full.
    """
    content = faiss.serialize_index(index)
    digest = hashlib.sha256(content.data).hexdigest()[:16]
    with whole_file(folder / f"{name}-{digest}.faiss") as temporary:
        temporary.write_bytes(content.data)  # not tofile, which does not say that the disk is full
    return digest


def open_intact_index(path: Path) -> faiss.Index | None:
    """Map a Faiss index from disk; None if the file is missing or does not have the digest in its name."""
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC) if _is_intact(path) else None
    except RuntimeError:
        return None  # another process has removed it


def require_index(path: Path) -> faiss.Index:
    """Map a Faiss index that is there, or was a moment ago.

    Raises:
        UserError: It is missing or damaged.
    """
    index = open_intact_index(path)
    if index is None:
        raise UserError(
            f"{path} is missing or damaged. All nodes must share the index, under the same path; if another process has changed "
            "it meanwhile, repeat the command."
        )
    return index


def _is_intact(path: Path) -> bool:
    """Whether a file is there and has the digest in its name."""
    try:
        return path.stem.rpartition("-")[2] == digest_file(path)[:16]
    except OSError:
        return False
