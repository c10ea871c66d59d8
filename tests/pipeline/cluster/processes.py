"""Which processes descend from others."""

import time
from contextlib import suppress
from pathlib import Path


def processes_below(roots: set[int]) -> dict[int, str]:
    """Processes that descend from others, with the start of their command lines."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            names[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")[:160]
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found, more = set(roots), True
    while more:
        new = {child for child, parent in parents.items() if parent in found} - found
        found, more = found | new, bool(new)
    return {process: names[process] for process in found - roots if process in names}


def find_left(processes: set[int], seconds: float) -> list[int]:
    """Which of these processes are still there after so many seconds, at most; zombies do not count."""
    limit = time.monotonic() + seconds
    while (left := [process for process in processes if _runs(process)]) and time.monotonic() < limit:
        time.sleep(0.5)
    return left


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
