"""Which processes descend from others."""

import time
from contextlib import suppress
from pathlib import Path


def processes_below(roots: set[int]) -> dict[tuple[int, str], str]:
    """Return the processes that descend from others, by number and time of their start, with the start of their command lines.

    The numbers alone come again: 32,768 of them are soon taken by the threads of Ray's processes.
    """
    parents, names, starts = dict[int, int](), dict[int, str](), dict[int, str]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            process = int(folder.name)
            names[process] = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")[:160]
            parents[process], starts[process] = int(_read_stat(process)[1]), _read_stat(process)[19]
    found, more = set(roots), True
    while more:
        new = {child for child, parent in parents.items() if parent in found} - found
        found, more = found | new, bool(new)
    return {(process, starts[process]): names[process] for process in found - roots if process in starts}


def find_left(processes: set[tuple[int, str]], seconds: float) -> list[tuple[int, str]]:
    """Return which of these processes are still there after so many seconds, at most; zombies do not count."""
    limit = time.monotonic() + seconds
    while (left := [process for process in processes if _runs(*process)]) and time.monotonic() < limit:
        time.sleep(0.5)
    return left


def _runs(process: int, start: str) -> bool:
    try:
        about = _read_stat(process)
    except OSError:
        return False
    return about[19] == start and about[0] != "Z"


def _read_stat(process: int) -> list[str]:
    """Return what the system says of a process behind its name: its state, its parent, …, its start."""
    return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
