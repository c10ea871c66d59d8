"""Files and folders that are written here and uploaded whole, and remote files that are read by their name here."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from image_copies.data.remote import READERS, RemotePath
from image_copies.data.threads import map_in_threads


@contextmanager
def upload_whole(target: RemotePath) -> Iterator[Path]:
    """Yield a local path to write to; the file is uploaded when the block ends without an error."""
    with tempfile.TemporaryDirectory(prefix="upload-") as folder:
        temporary = Path(folder) / target.name
        yield temporary
        target.upload(temporary)


@contextmanager
def upload_whole_folder(target: RemotePath) -> Iterator[Path]:
    """Yield a local folder to write into; its files are uploaded when the block ends without an error.

    Those directly in it, which readers look for, are uploaded last; what was there before is removed after that.
    """
    with tempfile.TemporaryDirectory(prefix="upload-") as name:
        folder = Path(name) / target.name
        folder.mkdir()
        yield folder
        paths = [path for path in folder.rglob("*") if path.is_file()]
        for inside in (True, False):
            part = [path for path in paths if (path.parent != folder) == inside]
            for _ in map_in_threads(lambda path: (target / path.relative_to(folder).as_posix()).upload(path), part, READERS):
                pass
        kept = {path.relative_to(folder) for path in paths}
        for old in target.list_files():
            if old.relative_to(target) not in kept:
                old.unlink(missing_ok=True)


@contextmanager
def local_file(path: Path) -> Iterator[Path]:
    """Yield a file of this machine with the content of `path`: itself, or a copy of a remote one that is removed afterwards.

    Raises:
        FileNotFoundError: there is no such remote file.
        StorageError: the store cannot be asked.
    """
    if not isinstance(path, RemotePath):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="download-") as folder:
        copied = Path(folder) / path.name
        path.download(copied)
        yield copied
