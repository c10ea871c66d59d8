"""The claims' rows as they are kept in git: what claims.md and the table of docs/papers.md are made from, without the runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase
from typing import Self, get_args

from image_copies.data.errors import UserError
from image_copies.data.files import write_text

from .row import Outcome, Row

HERE = Path(__file__).resolve().parent
SUMMARY = HERE / "claims.json"
TABLE = HERE / "claims.md"  # the whole table
DOCUMENT = HERE.parents[1] / "docs" / "papers.md"
ASIDE = "premise"  # of rows that a claim builds on
COMMAND = "studies/measure_claims.py --docs"


@dataclass
class Summary:
    """The summary file.

    Attributes:
        path: JSON: `rows`.
        rows: The rows, by their numbers.
    """

    path: Path
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the file.

        Raises:
            UserError: The file is not a summary of the claims.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(path, [Row.from_json(row) for row in content["rows"]])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is not a summary of the claims ({error}). Restore it: git checkout -- {path}"
            ) from error

    def put(self, rows: Sequence[Row]) -> None:
        """Write rows in place of those of the same claim; a row of more runs than the new one stays."""
        kept = {row.key: row for row in self.rows}
        kept |= {
            row.key: row
            for row in rows
            if row.key not in kept or row.difference.runs >= kept[row.key].difference.runs
        }
        self.rows = sorted(
            kept.values(),
            key=lambda row: (int("".join(filter(str.isdecimal, row.number))), row.number, row.claim),
        )
        content = {"rows": [row.as_json() for row in self.rows]}
        write_text(self.path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the table of rows; below it stands what was run, once for all rows that share it."""
    # a … z, aa, ab …
    names = ("".join(letters) for length in count(1) for letters in product(ascii_lowercase, repeat=length))
    letters = dict(zip(dict.fromkeys(row.ran for row in rows), names, strict=False))
    heads = [
        "#",
        "claim",
        "the paper's figure",
        "run",
        "measured here",
        "difference",
        "learnt",
        "least that matters",
        "verdict",
    ]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [row.number, row.claim, row.paper, letters[row.ran], row.measured, row.difference.as_text()]
        learnt = "" if row.learnt is None else "{2} {0:.3f}, {1:.3f} needed".format(*row.learnt)
        cells += [learnt, f"{row.smallest:g}", row.verdict]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {letter}: {ran}" for ran, letter in letters.items())]
    spread = "± after a side: standard deviation over the runs; after a difference: half the 95 % interval of its mean."
    return "\n".join([count_outcomes(rows), "", *lines, "", spread])


def choose_stated(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that decide a claim: all but premises."""
    return [row for row in rows if f", {ASIDE}" not in row.number]


def count_outcomes(rows: Sequence[Row]) -> str:
    """Return the table of the claims, each of which holds when all its rows do; premises do not count."""
    stated = choose_stated(rows)
    outcomes = get_args(Outcome)
    lines = [f"| claim | rows | {' | '.join(outcomes)} | the claim |", "|---" * (len(outcomes) + 3) + "|"]
    for number in dict.fromkeys(row.claim_number for row in stated):
        lines.append(_count(str(number), [row for row in stated if row.claim_number == number]))
    lines.append(_count("all", stated).rpartition(" | ")[0] + " | |")
    return "\n".join(lines)


def _count(name: str, rows: Sequence[Row]) -> str:
    found = [row.outcome for row in rows]
    whole = found[0] if len(set(found)) == 1 else "undecided" if "undecided" in found else "not in all rows"
    return f"| {name} | {len(rows)} | {' | '.join(str(found.count(outcome)) for outcome in get_args(Outcome))} | {whole} |"
