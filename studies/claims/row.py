"""A claim, what was measured of it, and the verdict."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

MIN_DECIDING_RUNS = 5  # with fewer runs, every claim is undecided
CONFIDENCE = 0.95  # of the interval of the mean difference
Outcome = Literal["holds", "contradicted", "no effect that matters", "undecided"]
DIGITS = 8  # of a figure in the summary


@dataclass(frozen=True)
class Difference:
    """By how much the claim's better side is better, over the runs (seeds, or toy runs).

    Attributes:
        mean: Of the runs' differences.
        spread: Their standard deviation; None for one run.
        runs: How many there are.
    """

    mean: float
    spread: float | None
    runs: int

    @classmethod
    def of(cls, differences: ArrayLike) -> "Difference":
        """Summarise the differences of all runs."""
        runs = np.asarray(differences, np.float64)
        spread = round(float(runs.std(ddof=1)), DIGITS) if len(runs) > 1 else None
        return cls(round(float(runs.mean()), DIGITS), spread, len(runs))

    @classmethod
    def between(cls, better: ArrayLike, worse: ArrayLike) -> "Difference":
        """Summarise the differences of two sides, run by run."""
        return cls.of(np.subtract(better, worse))

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the mean (Student's t); infinite for one run."""
        return math.inf if self.spread is None else compute_half_width(self.spread, self.runs)

    def as_text(self) -> str:
        """The mean with its margin."""
        return (
            f"{self.mean:+.3f} ± {self.margin:.3f}"
            if self.spread is not None
            else f"{self.mean:+.3f}, one run"
        )


@dataclass(frozen=True)
class Row:
    """One claim.

    Attributes:
        number: Number of the claim, with a letter where it has several rows.
        claim: The claim, in words.
        paper: The paper's figure, or the place where it makes the claim.
        ran: What was run.
        measured: Mean and spread of each side.
        difference: By how much the claim's better side is better.
        smallest: Smallest effect that matters, in the unit of the difference, stated before anything is run.
        learnt: A figure of the networks, what it has to reach, and its name: where it does not, nothing is decided. None where
            nothing is learnt.
        cause: The likely cause, where the claim is contradicted.
        commit: Of the code that measured it; of several, all.
        machine: That it was measured on.
    """

    number: str
    claim: str
    paper: str
    ran: str
    measured: str
    difference: Difference
    smallest: float
    learnt: tuple[float, float, str] | None = None
    cause: str = ""
    commit: str = ""
    machine: str = ""

    @property
    def key(self) -> str:
        """What identifies the row: a claim may have several of one number."""
        return f"{self.number}: {self.claim}"

    @property
    def claim_number(self) -> int:
        """9 for "9d, cause"."""
        return read_number(self.number)

    @property
    def outcome(self) -> Outcome:
        """What the interval says of the claim, next to the smallest effect that matters."""
        runs = self.difference.runs
        mean = self.difference.mean
        margin = self.difference.margin
        if runs < MIN_DECIDING_RUNS or not self.has_learnt:
            return "undecided"
        if mean - margin > self.smallest:
            return "holds"
        if mean + margin < -self.smallest:
            return "contradicted"
        return "no effect that matters" if abs(mean) + margin < self.smallest else "undecided"

    @property
    def has_learnt(self) -> bool:
        """Whether the networks reach what they have to."""
        return self.learnt is None or self.learnt[0] >= self.learnt[1]

    @property
    def verdict(self) -> str:
        """The outcome with its reason: the likely cause, or what it takes to decide."""
        if self.outcome == "contradicted" and self.cause:
            return f"contradicted: {self.cause}"
        if self.learnt is not None and not self.has_learnt:
            figure, needed, name = self.learnt
            return f"undecided: nothing learnt ({name} {figure:.3f}, {needed:.3f} needed)"
        runs = self.difference.runs
        if runs < MIN_DECIDING_RUNS:
            return f"undecided: {runs} runs, at least {MIN_DECIDING_RUNS} decide"
        return self.outcome

    def as_json(self) -> dict[str, Any]:
        """Return the row for the summary, with the interval, the seeds and the verdict."""
        difference, margin = self.difference, self.difference.margin
        interval = (
            [round(difference.mean + side * margin, DIGITS) for side in (-1, 1)]
            if math.isfinite(margin)
            else None
        )
        return asdict(self) | {
            "interval": interval,
            "seeds": f"0 to {difference.runs - 1}",
            "verdict": self.verdict,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Row":
        """Make a row from what `as_json` returned; interval and verdict are computed again."""
        known = {key: value for key, value in values.items() if key not in ("interval", "seeds", "verdict")}
        known["difference"] = Difference(**known["difference"])
        known["learnt"] = tuple(known["learnt"]) if known["learnt"] is not None else None
        return cls(**known)


def read_number(number: str) -> int:
    """Return 9 for "9d, cause"."""
    return int("".join(filter(str.isdecimal, number)))


def compute_half_width(spread: float, runs: int) -> float:
    """Return half the width of the 95 % interval of a mean (Student's t).

    Args:
        spread: Standard deviation over the runs.
        runs: Number of runs; for one, the width is infinite.
    """
    return (
        float(stats.t.ppf((1 + CONFIDENCE) / 2, runs - 1) * spread / math.sqrt(runs))
        if runs > 1
        else math.inf
    )


def format_sides(values: dict[str, list[float]]) -> str:
    """Return the mean and the standard deviation over the runs of each side, as text."""
    return ", ".join(
        f"{name} {np.mean(runs):.3f}" + (f" ± {np.std(runs, ddof=1):.3f}" if len(runs) > 1 else "")
        for name, runs in values.items()
    )
