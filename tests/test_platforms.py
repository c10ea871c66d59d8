"""What other systems and older Pythons lack or do otherwise: modules of POSIX alone, drive letters, backslashes, other GPUs."""

import ast
import subprocess
import sys
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.data.kinds import OBJECTIVES, OfKind
from image_copies.data.process import DEVICE_VARIABLE
from image_copies.matching.files.acting import whole_path
from image_copies.matching.index.store import names_below
from image_copies.models.device import best_device, describe_device
from tests.sources import TOP, list_sources, parse

POSIX_ALONE = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}


def _caught(handler: ast.ExceptHandler) -> str:
    return handler.type.id if isinstance(handler.type, ast.Name) else ""


def imported(path: Path) -> set[str]:
    """Modules that a file needs, inside functions too; what it does without is in a `try` for ImportError."""
    names: set[str] = set()
    tree = parse(path)
    tried = [node for node in ast.walk(tree) if isinstance(node, ast.Try) and "ImportError" in map(_caught, node.handlers)]
    spared = {line for node in tried for line in node.body}
    for node in ast.walk(tree):
        if node in spared:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").split(".")[0])
    return names


def test_no_module_needs_what_windows_lacks_and_locks_index_and_plans_work_without(tmp_path: Path) -> None:
    assert {str(path): found for path in list_sources() if (found := imported(path) & POSIX_ALONE)} == {}
    program = WITHOUT % sorted(POSIX_ALONE - {"posix"})  # Python itself needs that one here
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, cwd=TOP)
    assert (done.returncode, done.stdout) == (0, "busy\n"), done.stderr
    assert (tmp_path / "whole").is_file()


WITHOUT = """
import sys
from pathlib import Path
for name in %r:
    sys.modules[name] = None
from image_copies.data.errors import UserError
from image_copies.data.files import whole_file
from image_copies.data.locks import hold_lock_file
from image_copies.matching.files.acting import apply_plan
from image_copies.matching.index.store import open_store
folder = Path(sys.argv[1])
with hold_lock_file(folder / "lock", "busy"), open_store(folder / "index", "extractor", 8), whole_file(folder / "whole") as file:
    file.touch()
    try:
        with hold_lock_file(folder / "lock", "busy"):
            print("held twice")
    except UserError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("folder", "inside", "outside"),
    [
        (PurePosixPath("/a b"), ["/a b/x.jpg", "/a b/c/x.jpg"], ["/a b", "/a b.jpg", "/a bc/x.jpg", "/a/b/x.jpg"]),
        (PureWindowsPath(r"C:\my photos"), [r"C:\my photos\x.jpg", r"C:\my photos\c d\x.jpg"], [r"C:\my photos2\x.jpg"]),
        (PureWindowsPath("C:\\"), [r"C:\x.jpg"], [r"D:\x.jpg"]),
        (PureWindowsPath(r"\\server\share\a"), [r"\\server\share\a\x.jpg"], [r"\\server\share\ab\x.jpg"]),
    ],
)
def test_what_lies_below_a_folder_is_found_by_its_name(folder: PurePath, inside: list[str], outside: list[str]) -> None:
    first, last = names_below(folder)
    assert all(first < name.encode() < last for name in inside)
    assert not any(first < name.encode() < last for name in outside)


def test_moved_files_of_two_drives_do_not_meet() -> None:
    names = [r"C:\a b\x.jpg", r"D:\a b\x.jpg", r"\\server\share\a b\x.jpg", r"\\?\C:\y.jpg"]
    moved = [whole_path(PureWindowsPath(name)).as_posix() for name in names]
    assert moved == ["C/a b/x.jpg", "D/a b/x.jpg", "server-share/a b/x.jpg", "C/y.jpg"]
    assert whole_path(PurePosixPath("/a b/x.jpg")) == PurePosixPath("a b/x.jpg")
    for name in moved:
        assert not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts


def test_apples_gpu_is_used_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert best_device() == torch.device("cpu")
    monkeypatch.setenv(DEVICE_VARIABLE, "mps")
    assert best_device() == torch.device("mps") and "mps" in describe_device(best_device())
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for named, message in (("mps", "no such device"), ("cuda", "no such device"), ("gpu", "cpu, cuda or mps")):
        monkeypatch.setenv(DEVICE_VARIABLE, named)
        with pytest.raises(UserError, match=message):
            best_device()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv(DEVICE_VARIABLE, "cpu")
    assert best_device() == torch.device("cpu") and DEVICE_VARIABLE in describe_device(best_device())


def test_what_a_type_is_annotated_with_can_be_hashed() -> None:
    """Python 3.11 and 3.12 do so where the type is one of a union; newer ones do not."""
    assert hash(OfKind(OBJECTIVES, "arcface")) == hash(OfKind(OBJECTIVES, "arcface"))
