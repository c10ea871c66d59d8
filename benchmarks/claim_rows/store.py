"""What was measured, kept in a file after each training: a stopped benchmark goes on, and further seeds join the ones before.

Several commands may share the file: each reads it again, under a lock, before it measures and before it writes.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from claim_rows.row import Row

from image_copies.data.errors import UserError
from image_copies.data.files import write_text
from image_copies.data.locks import hold_lock_file

Figures = dict[str, float]
MAX_WAIT_SECONDS = 60.0  # for another command that writes the file, which takes milliseconds
DIGITS = 6  # of a figure in the file


@dataclass
class Store:
    """The results file.

    Attributes:
        path: JSON: `measurements`, each with its budget, name, settings, seed, figures and seconds of processor time, and `rows`.
        measurements: What the file holds.
        rows: The claims, as they were last computed.
    """

    path: Path
    measurements: list[dict[str, Any]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

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
                seconds = round(time.process_time() - started, 1)
                self._add([{"name": name, "about": about, "seed": seed, "figures": figures, "seconds": seconds}], [])
        found = self.find(name, about)
        return [found[seed]["figures"] for seed in seeds]

    def find(self, name: str, about: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the measurements of this name and budget by seed."""
        key = json.loads(json.dumps({"name": name, "about": about}))
        return {entry["seed"]: entry for entry in self.measurements if key.items() <= entry.items()}

    def put(self, rows: Sequence[Row]) -> None:
        """Keep computed rows in the file, in place of those of the same claim."""
        self._add([], rows)

    def merge(self, other: "Store") -> None:
        """Add what another file has: its measurements, and its rows of more runs than those here."""
        runs = {(row.number, row.claim): len(row.differences) for row in self.rows}
        rows = [row for row in other.rows if len(row.differences) > runs.get((row.number, row.claim), 0)]
        self._add(other.measurements, rows)

    @property
    def seconds(self) -> float:
        """Processor time of all measurements in the file, in seconds: a busy machine takes longer."""
        return float(sum(entry["seconds"] for entry in self.measurements))

    def read(self) -> None:
        """Read what the file holds now.

        Raises:
            UserError: The file is not a results file of the claims.
        """
        if not self.path.is_file():
            return
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            self.measurements = list(content["measurements"])
            self.rows = [Row.from_json(row) for row in content["rows"]]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{self.path} is not a results file of the claims ({error}). Name another one with --results."
            ) from error

    def _add(self, measurements: Sequence[dict[str, Any]], rows: Sequence[Row]) -> None:
        """Write the file with what is new, whole or not at all."""
        with self._hold():
            self.read()
            for entry in json.loads(json.dumps(list(measurements))):
                if entry["seed"] not in self.find(entry["name"], entry["about"]):
                    self.measurements.append(entry)
            claims = {(row.number, row.claim) for row in rows}
            self.rows = [row for row in self.rows if (row.number, row.claim) not in claims] + list(rows)
            self.rows.sort(key=lambda row: (int("".join(filter(str.isdecimal, row.number))), row.number, row.claim))
            content = {"rows": [row.as_json() for row in self.rows], "measurements": self.measurements}
            write_text(self.path, json.dumps(content, indent=1, ensure_ascii=False))

    @contextmanager
    def _hold(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = f"{self.path} is locked by another command for over {MAX_WAIT_SECONDS:g} s. End that one, and repeat this one."
        with hold_lock_file(self.path.with_name(f".{self.path.name}.lock"), busy, MAX_WAIT_SECONDS):
            yield


def open_store(path: Path) -> Store:
    """Open the results file; it is empty if there is none yet.

    Raises:
        UserError: The file is not a results file of the claims.
    """
    store = Store(path)
    store.read()
    return store


def as_markdown(store: Store, expected: Store | None = None) -> str:
    """Return the table of the file; below it stands what was run, once for all rows that share it.

    Args:
        store: The results.
        expected: Results whose differences are to stand beside these; None for none.
    """
    names = ("".join(letters) for length in count(1) for letters in product(ascii_lowercase, repeat=length))  # a … z, aa, ab …
    letters = dict(zip(dict.fromkeys(row.ran for row in store.rows), names, strict=False))
    heads = ["#", "claim", "the paper's figure", "run", "measured here", "difference", "least that matters", "verdict"]
    before = {(row.number, row.claim): f"{row.mean:+.3f}" for row in expected.rows} if expected is not None else {}
    if expected is not None:
        heads.insert(6, "expected")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in store.rows:
        cells = [row.number, row.claim, row.paper, letters[row.ran], row.measured, row.difference]
        cells += [f"{row.smallest:g}", row.verdict]
        if expected is not None:
            cells.insert(6, before.get((row.number, row.claim), "none"))
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {letter}: {ran}" for ran, letter in letters.items())]
    spread = "± after a side: standard deviation over the runs; after a difference: half the 95 % interval of its mean."
    return "\n".join([*lines, "", f"All trainings: {store.seconds / 60:.0f} min of processor time. {spread}"])
