"""A small disk of its own, which can be made smaller and larger."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = 4096
ROOMY = 256 * 2**20


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """The folder as a disk of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here, which takes root: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def resize(disk: Path, free: int | None) -> None:
    """Leave so many bytes free on the disk; None for plenty."""
    state = os.statvfs(disk)
    used = (state.f_blocks - state.f_bfree) * state.f_frsize
    size = ROOMY if free is None else max(PAGE, used + free // PAGE * PAGE)
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def used(disk: Path) -> int:
    """Bytes that are taken."""
    state = os.statvfs(disk)
    return (state.f_blocks - state.f_bfree) * state.f_frsize
