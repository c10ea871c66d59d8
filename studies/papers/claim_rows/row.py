"""A claim, what was measured of it, and the verdict with as much power as the seeds give."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

MIN_DECIDING_RUNS = 5  # with fewer runs, every claim is undecided
CONFIDENCE = 0.95  # of the interval of the mean difference
MAX_PLANNED_RUNS = 1000  # runs up to which the verdict says how many would decide
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
        return f"{self.mean:+.3f} ± {self.margin:.3f}" if self.spread is not None else f"{self.mean:+.3f}, one run"


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
        learnt: A figure of the networks, what it is by chance, and its name: where it is not above chance by half, nothing is
            decided. None where nothing is learnt.
        cause: The likely cause, where the claim is contradicted.
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

    @property
    def key(self) -> str:
        """What identifies the row: a claim may have several of one number."""
        return f"{self.number}: {self.claim}"

    @property
    def verdict(self) -> str:
        """What the interval says of the claim.

        It holds where the interval lies above zero and is contradicted where it lies below, which excludes the paper's direction.
        Otherwise it is undecided, with the number of further runs that would decide.
        """
        runs, mean, margin = self.difference.runs, self.difference.mean, self.difference.margin
        if self.learnt is not None and self.learnt[0] < 1.5 * self.learnt[1]:
            figure, chance, name = self.learnt
            return f"undecided: the networks have not learnt ({name} {figure:.3f}, by chance {chance:.3f})"
        if runs < MIN_DECIDING_RUNS:
            return f"undecided: {runs} runs, at least {MIN_DECIDING_RUNS} decide ({MIN_DECIDING_RUNS - runs} more)"
        if mean - margin > 0:
            return "holds"
        if mean + margin < 0:
            return "contradicted" + (f": {self.cause}" if self.cause else "")
        return f"undecided: {self._what_it_takes()}"

    def _what_it_takes(self) -> str:
        runs, spread, mean = self.difference.runs, self.difference.spread or 0.0, abs(self.difference.mean)
        needed = count_runs_needed(spread, max(mean, self.smallest))
        if needed > runs:
            effect = f"an effect of {max(mean, self.smallest):.3g}"
            return (
                f"{needed - runs} more runs would decide {effect}"
                if needed <= MAX_PLANNED_RUNS
                else f"over {MAX_PLANNED_RUNS} runs for {effect}"
            )
        further = count_runs_needed(spread, mean)
        small = f"any effect is below {mean + self.difference.margin:.3g}"
        return f"{small}; its sign would take " + (
            f"{further - runs} more runs" if further <= MAX_PLANNED_RUNS else f"over {MAX_PLANNED_RUNS} runs"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the row for the summary, with the interval, the seeds and the verdict."""
        difference, margin = self.difference, self.difference.margin
        interval = [round(difference.mean + side * margin, DIGITS) for side in (-1, 1)] if math.isfinite(margin) else None
        return asdict(self) | {"interval": interval, "seeds": f"0 to {difference.runs - 1}", "verdict": self.verdict}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Row":
        """Make a row from what `as_json` returned; interval and verdict are computed again."""
        known = {key: value for key, value in values.items() if key not in ("interval", "seeds", "verdict")}
        known["difference"] = Difference(**known["difference"])
        known["learnt"] = tuple(known["learnt"]) if known["learnt"] is not None else None
        return cls(**known)


def compute_half_width(spread: float, runs: int) -> float:
    """Return half the width of the 95 % interval of a mean (Student's t).

    Args:
        spread: Standard deviation over the runs.
        runs: Number of runs; for one, the width is infinite.
    """
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, runs - 1) * spread / math.sqrt(runs)) if runs > 1 else math.inf


def count_runs_needed(spread: float, effect: float) -> int:
    """Return the smallest number of runs for which half the width of the 95 % interval is below an effect.

    Args:
        spread: Standard deviation over the runs.
        effect: The effect, in the unit of `spread`.

    Returns:
        At least MIN_DECIDING_RUNS; MAX_PLANNED_RUNS + 1 if MAX_PLANNED_RUNS are too few.
    """
    counts = range(MIN_DECIDING_RUNS, MAX_PLANNED_RUNS + 1)
    return next((runs for runs in counts if compute_half_width(spread, runs) < effect), MAX_PLANNED_RUNS + 1)


def format_sides(values: dict[str, list[float]]) -> str:
    """Return the mean and the standard deviation over the runs of each side, as text."""
    return ", ".join(
        f"{name} {np.mean(runs):.3f}" + (f" ± {np.std(runs, ddof=1):.3f}" if len(runs) > 1 else "")
        for name, runs in values.items()
    )
