"""What was measured, kept in a file after each training: a stopped benchmark goes on, and further seeds join the ones before.

Several commands may share the file: each reads it again, under a lock, before it measures and before it writes.
"""

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from image_copies.data.errors import UserError
from image_copies.data.files import write_text
from image_copies.data.locks import hold_lock_file
from image_copies.data.process import usable_cores
from image_copies.pipeline.run.step import code_version

Figures = dict[str, float]
MAX_WAIT_SECONDS = 60.0  # for another command that writes the file, which takes milliseconds
DIGITS = 6  # of a figure in the file


@dataclass
class Measurements:
    """The results file.

    Attributes:
        path: JSON: `measurements`, each with its name, settings, seed, figures, seconds of processor time, commit and
            machine.
        measurements: What the file holds.
        commit: Of the code as the command began: what it writes itself, in a file that git keeps, is no change of it.
    """

    path: Path
    measurements: list[dict[str, Any]] = field(default_factory=list)
    commit: str = field(default_factory=code_version)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the results file; it is empty if there is none yet.

        Raises:
            UserError: The file is not a results file.
        """
        opened = cls(path)
        opened.read()
        return opened

    def measure(self, name: str, about: dict[str, Any], seeds: Sequence[int], work: Callable[[int], Figures]) -> list[Figures]:
        """Return the figures of every seed; those that the file lacks are measured and written one by one.

        Args:
            name: Name of the measurement.
            about: Settings and budget; figures in the file count only if both name and settings are the same.
            seeds: Seeds to measure.
            work: Measures the figures of one seed.
        """
        for seed in seeds:
            self.read()  # another command may have measured it
            if seed not in self.find(name, about):
                started = time.process_time()
                figures = {figure: round(float(value), DIGITS) for figure, value in work(seed).items()}
                entry = {"name": name, "about": about, "seed": seed, "figures": figures}
                spent = {"seconds": round(time.process_time() - started, 1)}
                self.add([entry | spent | {"commit": self.commit, "machine": describe_machine()}])
        found = self.find(name, about)
        return [found[seed]["figures"] for seed in seeds]

    def find(self, name: str, about: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the measurements of this name and budget by seed."""
        key = json.loads(json.dumps({"name": name, "about": about}))
        return {entry["seed"]: entry for entry in self.measurements if key.items() <= entry.items()}

    def read(self) -> None:
        """Read what the file holds now.

        Raises:
            UserError: The file is not a results file.
        """
        if not self.path.is_file():
            return
        try:
            self.measurements = list(json.loads(self.path.read_text(encoding="utf-8"))["measurements"])
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{self.path} is not a results file ({error}). Name another one with --results.") from error

    def add(self, measurements: Sequence[dict[str, Any]]) -> None:
        """Write the file with what it lacks of these, whole or not at all."""
        with self._hold():
            self.read()
            for entry in json.loads(json.dumps(list(measurements))):
                if entry["seed"] not in self.find(entry["name"], entry["about"]):
                    self.measurements.append(entry)
            write_text(self.path, json.dumps({"measurements": self.measurements}, indent=1, ensure_ascii=False))

    def replace(self, name: str, about: dict[str, Any], figures: dict[str, Any]) -> None:
        """Write figures that every run measures again, in place of those of this name and budget; they have no seed."""
        with self._hold():
            self.read()
            old = self.find(name, about)
            kept = [entry for entry in self.measurements if entry not in old.values()]
            about_run = {"commit": self.commit, "machine": describe_machine()}
            self.measurements = [*kept, {"name": name, "about": about, "seed": 0, "figures": figures, **about_run}]
            write_text(self.path, json.dumps({"measurements": self.measurements}, indent=1, ensure_ascii=False))

    @contextmanager
    def _hold(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = f"{self.path} is locked by another command for over {MAX_WAIT_SECONDS:g} s. End that one, and repeat this one."
        with hold_lock_file(self.path.with_name(f".{self.path.name}.lock"), busy, MAX_WAIT_SECONDS):
            yield


def describe_machine() -> str:
    """Return the kind of processor and the number of its cores that may be used."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    kinds = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{kinds[0] if kinds else platform.machine()}, {usable_cores()} cores"
