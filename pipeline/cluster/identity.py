"""What results depend on besides their inputs: two machines make the same bytes only if these agree."""

import hashlib
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from image_copies.data.files import digest_file
from image_copies.pipeline.run.provenance import code_version, versions

TOP = Path(__file__).parents[2]
PACKAGES = ("augmentations", "data", "matching", "models", "pipeline", "submissions")


@cache
def describe_code() -> str:
    """Return the version of the code and the start of a digest of its sources, which tells modified checkouts apart."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((TOP / package).rglob("*.py")):
            digest.update(f"{path.relative_to(TOP).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return f"{code_version()} ({digest.hexdigest()[:12]})"


def describe_packages() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, and the machine's architecture."""
    return versions() | {"machine": platform.machine()}


def digest_inputs(paths: Sequence[Path]) -> dict[str, str]:
    """Return the start of the SHA-256 of each file's bytes, by path as text; empty for a file that is not there."""
    return {str(path): _digest_file(path) if path.is_file() else "" for path in paths}


def _digest_file(path: Path) -> str:
    state = path.stat()
    return _digest_state(path, state.st_size, state.st_mtime_ns)


@cache
def _digest_state(path: Path, size: int, time: int) -> str:
    """Digest a file once as long as it stays the same."""
    return digest_file(path)[:16]
