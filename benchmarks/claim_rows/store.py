"""What was measured, kept in a file after each training: a stopped benchmark goes on, and further seeds join the ones before."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from claim_rows.row import Row

from data.errors import UserError
from data.files import write_text

Figures = dict[str, float]


@dataclass
class Store:
    """The results file.

    Attributes:
        path: JSON: `measurements`, each with its budget, name, settings, seed, figures and seconds, and `rows`.
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
        key = json.loads(json.dumps({"name": name, "about": about}))
        found = {entry["seed"]: entry["figures"] for entry in self.measurements if key.items() <= entry.items()}
        for seed in seeds:
            if seed not in found:
                started = time.monotonic()
                found[seed] = {figure: float(value) for figure, value in work(seed).items()}
                seconds = round(time.monotonic() - started, 1)
                self.measurements.append(key | {"seed": seed, "figures": found[seed], "seconds": seconds})
                self.save()
        return [found[seed] for seed in seeds]

    def put(self, rows: Sequence[Row]) -> None:
        """Keep computed rows in the file, in place of those of the same claim."""
        claims = {(row.number, row.claim) for row in rows}
        self.rows = [row for row in self.rows if (row.number, row.claim) not in claims] + list(rows)
        self.rows.sort(key=lambda row: (int("".join(filter(str.isdecimal, row.number))), row.number))
        self.save()

    @property
    def seconds(self) -> float:
        """Duration of all measurements in the file, in seconds."""
        return float(sum(entry["seconds"] for entry in self.measurements))

    def save(self) -> None:
        """Write the file, whole or not at all."""
        content = {"rows": [row.as_json() for row in self.rows], "measurements": self.measurements}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, json.dumps(content, indent=1, ensure_ascii=False))


def open_store(path: Path) -> Store:
    """Open the results file; it is empty if there is none yet.

    Raises:
        UserError: when the file is not a results file of the claims.
    """
    if not path.is_file():
        return Store(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Store(path, list(content["measurements"]), [Row.from_json(row) for row in content["rows"]])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a results file of the claims ({error}). Name another one with --results.") from error


def as_markdown(store: Store) -> str:
    """Return the table of the file; below it stands what was run, once for all rows that share it."""
    names = ("".join(letters) for length in count(1) for letters in product(ascii_lowercase, repeat=length))  # a … z, aa, ab …
    letters = dict(zip(dict.fromkeys(row.ran for row in store.rows), names, strict=False))
    lines = [
        "| # | claim | the paper's figure | run | measured here | difference | least that matters | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in store.rows:
        difference = f"{row.mean:+.3f} ± {row.margin:.3f}"
        cells = (row.number, row.claim, row.paper, letters[row.ran], row.measured, difference, f"{row.smallest:g}", row.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {letter}: {ran}" for ran, letter in letters.items())]
    spread = "± after a side: standard deviation over the runs; after a difference: half the 95 % interval of its mean."
    return "\n".join([*lines, "", f"All trainings: {store.seconds / 60:.0f} min. {spread}"])
