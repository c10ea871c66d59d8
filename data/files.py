"""Files and folders that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; renamed to it on success, removed on any error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=f".part{path.suffix}", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    temporary.chmod(0o666 & ~_umask())
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it takes the place of `path` on success, is removed on any error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    temporary.chmod(0o777 & ~_umask())
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
