"""What the tests of faults share: commands in forked children, folders that are put back, and what a folder holds."""

import csv
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]
PATCHES = ("fork_workers", "commit_often", "save_at_every_step")
State = dict[str, str]  # path → what it holds, as far as two runs must agree
STEPS = ("00_augment", "01_train", "02_embed", "03_ensemble", "04_normalize", "05_submit", "06_score")


def share_of(cases: int) -> int:
    """So many cases, or with FAULT_SHARE in the environment that share of them; at least one."""
    return max(1, round(cases * float(os.environ.get("FAULT_SHARE", "1"))))


@dataclass(frozen=True)
class Done:
    """A command that has ended.

    Attributes:
        code: Its exit code; the negative number of the signal that ended it.
        said: What it printed.
        seconds: It took.
        changes: Changes of files that it made.
        struck: Whether what was to happen happened before it ended.
    """

    code: int
    said: str
    seconds: float
    changes: int
    struck: bool


FAULTS: dict[str, Any] = {
    "patches": PATCHES,
    "environment": {},  # variables to set
    "delay": None,  # seconds after which it is sent the signal
    "after_a_change": False,  # whether they count from the first change of a file
    "last_change": None,  # how many changes of files it may make before its group is killed
    "largest_file": None,  # bytes of a file beyond which a write kills the process, as in the midst of a file
    "worker_delay": None,  # seconds after which one of its workers is killed, counted from when it has some
    "signal": signal.SIGKILL,
    "to_group": True,  # whether its workers get the signal too
}


class Forks:
    """Runs commands in children of a process that has imported everything."""

    def __init__(self, scratch: Path) -> None:
        self._log = scratch / "log.txt"
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(TOP)}
        command = [sys.executable, str(Path(__file__).with_name("forking.py"))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=TOP
        )
        assert self._process.stdout is not None and self._process.stdout.readline() == "ready\n"

    def run(self, where: Path, name: str, *arguments: object, **faults: Any) -> Done:
        """Run `pipeline/<name>.py` with its arguments in a folder, with whatever is to go wrong: keys of FAULTS."""
        assert faults.keys() <= FAULTS.keys()
        script = str(TOP / "pipeline" / f"{name}.py")
        about = {"where": str(where), "script": script, "arguments": list(map(str, arguments)), "log": str(self._log)}
        request = FAULTS | about | faults
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        said = self._log.read_text(encoding="utf-8", errors="replace")
        assert not answer["hung"], f"{name} hangs: {said[-3000:]}"
        return Done(answer["code"], said, answer["seconds"], answer["changes"], answer["struck"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass(frozen=True)
class Job:
    """A command with the folder that it is started in.

    Attributes:
        name: What tests call it.
        script: `pipeline/<script>.py`.
        arguments: Its own.
        before: A copy of the folder as it was before; put back before each case.
        where: The folder.
        code: The exit code of a whole run.
    """

    name: str
    script: str
    arguments: tuple[object, ...]
    before: Path
    where: Path
    code: int = 0

    def put_back(self, kept: Path | None = None) -> None:
        """The folder as it was before, or as `kept` has it."""
        shutil.rmtree(self.where, ignore_errors=True)
        shutil.copytree(kept or self.before, self.where, symlinks=True)

    def run(self, forks: Forks, **faults: Any) -> Done:
        """Start it, with whatever is to go wrong (`Forks.run`)."""
        return forks.run(self.where, self.script, *self.arguments, environment=scratch_environment(self.where), **faults)

    def finish(self, forks: Forks, **options: Any) -> Done:
        """Start it and let it end well."""
        done = self.run(forks, **options)
        assert done.code == self.code, f"{self.name} ended with {done.code}: {done.said[-3000:]}"
        return done


Ledger = Callable[[str, int, list[str], float], None]  # what was tried, cases, what failed, seconds


def scratch_environment(where: Path) -> dict[str, str]:
    """A home and a trash below the folder, so that nothing outside of it changes."""
    return {"HOME": str(where), "XDG_DATA_HOME": str(where / "share"), "TMPDIR": str(where.parent / "tmp")}


def folder_state(folder: Path) -> State:
    """Every file below a folder and what it holds, but for what may differ between two runs: times, and locks' insides."""
    state: State = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            state[name] = f"→ {path.readlink()}"
        elif path.is_dir() or _IGNORED.search(name):
            continue
        else:
            state[_COUNTED.sub("N", name)] = _content(path)
    return state


def exact_state(folder: Path) -> State:
    """Every file below a folder with all its bytes, but for the numbers of killed processes in names and locks."""
    names = ((_WRITER.sub("", path.relative_to(folder).as_posix()), path) for path in folder.rglob("*") if not path.is_dir())
    return {
        name: "" if ".in-use" in name or ".lock" in name else str(path.readlink()) if path.is_symlink() else _digest(path)
        for name, path in names
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


_WRITER = re.compile(r"-\d+-[a-z0-9_]*(?=\w*\.part)|tfevents.*")
_IGNORED = re.compile(r"tensorboard/|\.in-use|\.lock|\.sqlite-(wal|shm)$|intact\.json$")
_COUNTED = re.compile(r"(?<=vectors-)\d+(?=-)")  # how often an index was changed


def _content(path: Path) -> str:
    if path.suffix == ".sqlite":
        return json.dumps(index_content(path))
    content = path.read_bytes()
    if path.name == "journal.jsonl":
        content = json.dumps(journal_states(content.decode())).encode()
    elif path.parent.name == "manifests":
        about, left_out = json.loads(content), {"seconds", "inputs", "code", "sizes"}  # sizes: of the checkpoints' notes
        content = json.dumps({key: about[key] for key in sorted(about) if key not in left_out}).encode()
    elif path.name == "curve.csv":
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        for row in rows:
            # not measured where a kill falls into it; a warning may compare figures of the validation
            row["seconds"] = row["images_per_second"] = row["validation"] = row["left_out"] = row["warning"] = ""
        content = json.dumps(rows).encode()
    elif path.name.startswith("stage-") and path.suffix == ".safetensors" and len(content) > 8:
        length = int.from_bytes(content[:8], "little")
        try:
            about = json.loads(content[8 : 8 + length])
        except ValueError:
            return "torn"
        about.pop("__metadata__")  # notes, with the validation's figure
        content = json.dumps(about).encode() + content[8 + length :]
    elif path.name == "state.json":
        about = json.loads(content)
        about["progress"]["seconds"] = about["progress"]["validated"] = 0
        content = json.dumps(about).encode()
    elif path.suffix == ".trashinfo":
        content = re.sub(rb"(?m)^DeletionDate=\d{4}-.*$", b"DeletionDate", content)
    return hashlib.sha256(content).hexdigest()


def differences(found: State, expected: State) -> str:
    """In words; empty where two folders agree."""
    gone, new = expected.keys() - found.keys(), found.keys() - expected.keys()
    changed = [name for name in found.keys() & expected.keys() if found[name] != expected[name]]
    parts = [("missing", gone), ("beside", new), ("different", changed)]
    return "; ".join(f"{what}: {', '.join(sorted(names)[:5])} ({len(names)})" for what, names in parts if names)


def journal_states(text: str) -> dict[str, str]:
    """What became of each file in the end; a kill leaves a step more that was not begun."""
    files, states = dict[int, str](), dict[str, str]()
    for line in map(json.loads, text.splitlines()):
        files.setdefault(line["number"], line.get("file", ""))
        states[files[line["number"]]] = line["state"]
    return dict(sorted(states.items()))


def index_content(path: Path) -> list[str]:
    """What an index knows: its files with their contents and vectors, queries, decisions."""
    with closing(sqlite3.connect(path)) as database:
        asked = (
            "SELECT path, digest, vector FROM files JOIN contents USING (content) ORDER BY path",
            "SELECT digest, vector FROM contents ORDER BY digest",
            "SELECT first, second, copy FROM decisions ORDER BY first, second",
        )
        try:
            return [hashlib.sha256(repr(database.execute(query).fetchall()).encode()).hexdigest() for query in asked]
        except sqlite3.OperationalError as error:  # one that was never finished has no tables
            return [str(error)]


ODD = (
    *(b"\0", b"\xff", b"\n", b"\r", b",", b'"', b"'", b"-1", b"1e999", b"nan", b"9" * 400, b"../", b"[" * 20_000, b"{}"),
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"\0" * 8, b"\xed\xa0\x80", b"<script>", b": ", b"- ", b"#"),
    *(b"&a ", b"*a"),
)


def mutate(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Drawn from one number, ten times as fast as by strategies; the failing file is left for a look."""
    content, other = bytearray(rng.choice(seeds)), rng.choice(seeds)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(
            min(len(content), rng.choice((64, 1024, len(content)))) + 1
        )  # heads are worth more than their share
        end = start + rng.randint(1, 64)
        payload = rng.choice(ODD) if rng.random() < 0.5 else rng.randbytes(rng.randint(0, 8))
        match rng.randrange(7):
            case 0 if start < len(content):
                content[start] ^= 1 << rng.randrange(8)
            case 1:
                content[start : start + len(payload)] = payload
            case 2:
                content[start:start] = payload
            case 3:
                del content[start:end]
            case 4 if rng.random() < 0.3:
                del content[start:]
            case 5:
                content[start:] = other[rng.randrange(len(other) + 1) :]
            case _:
                content[start:start] = content[start:end]
    return bytes(content)


def memory(key: str, process: int | str = "self") -> float:
    """GiB of a process: VmRSS, or VmHWM, its peak."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 2**20
