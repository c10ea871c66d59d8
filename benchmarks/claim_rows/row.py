"""A claim, what was measured of it, and the verdict with as much power as the seeds give."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

MIN_DECIDING_RUNS = 5  # with fewer runs, every claim is undecided
CONFIDENCE = 0.95  # of the interval of the mean difference
MAX_PLANNED_RUNS = 1000  # runs up to which the verdict says how many would decide


@dataclass(frozen=True)
class Row:
    """One claim.

    Attributes:
        number: Number of the claim, with a letter where it has several rows.
        claim: The claim, in words.
        paper: The paper's figure, or the place where it makes the claim.
        ran: What was run.
        measured: Mean and spread of each side.
        differences: [runs], by how much the claim's better side is better, run by run (seeds, or toy runs).
        smallest: Smallest effect that matters, in the unit of the differences, stated before anything is run.
        learnt: A figure of the networks, what it is by chance, and its name: where it is not above chance by half, nothing is
            decided. None where nothing is learnt.
        cause: The likely cause, where the claim is contradicted.
    """

    number: str
    claim: str
    paper: str
    ran: str
    measured: str
    differences: tuple[float, ...]
    smallest: float
    learnt: tuple[float, float, str] | None = None
    cause: str = ""

    @property
    def mean(self) -> float:
        """Mean of the differences."""
        return float(np.mean(self.differences))

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the mean (Student's t); infinite for one run."""
        return compute_half_width(self._spread(), len(self.differences))

    @property
    def difference(self) -> str:
        """The mean of the differences with its margin, as text."""
        return f"{self.mean:+.3f} ± {self.margin:.3f}" if math.isfinite(self.margin) else f"{self.mean:+.3f}, one run"

    @property
    def verdict(self) -> str:
        """What the interval says of the claim.

        It holds where the interval lies above zero and is contradicted where it lies below, which excludes the paper's direction.
        Otherwise it is undecided, with the number of further runs that would decide.
        """
        runs = len(self.differences)
        if self.learnt is not None and self.learnt[0] < 1.5 * self.learnt[1]:
            figure, chance, name = self.learnt
            return f"undecided: the networks have not learnt ({name} {figure:.3f}, by chance {chance:.3f})"
        if runs < MIN_DECIDING_RUNS:
            return f"undecided: {runs} runs, at least {MIN_DECIDING_RUNS} decide ({MIN_DECIDING_RUNS - runs} more)"
        if self.mean - self.margin > 0:
            return "holds"
        if self.mean + self.margin < 0:
            return "contradicted" + (f": {self.cause}" if self.cause else "")
        return f"undecided: {self._what_it_takes()}"

    def _spread(self) -> float:
        return float(np.std(self.differences, ddof=1)) if len(self.differences) > 1 else math.inf

    def _what_it_takes(self) -> str:
        runs, spread = len(self.differences), self._spread()
        needed = count_runs_needed(spread, max(abs(self.mean), self.smallest))
        if needed > runs:
            effect = f"an effect of {max(abs(self.mean), self.smallest):.3g}"
            return (
                f"{needed - runs} more runs would decide {effect}"
                if needed <= MAX_PLANNED_RUNS
                else f"over {MAX_PLANNED_RUNS} runs for {effect}"
            )
        further = count_runs_needed(spread, abs(self.mean))
        small = f"any effect is below {abs(self.mean) + self.margin:.3g}"
        return f"{small}; its sign would take " + (
            f"{further - runs} more runs" if further <= MAX_PLANNED_RUNS else f"over {MAX_PLANNED_RUNS} runs"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the row for the results file, with mean, margin (half the interval) and verdict."""
        margin = self.margin if math.isfinite(self.margin) else None  # JSON knows no infinity
        return asdict(self) | {"mean": self.mean, "margin": margin, "verdict": self.verdict}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Row":
        """Make a row from what `as_json` returned; mean, margin and verdict are computed again."""
        known = {key: value for key, value in values.items() if key not in ("mean", "margin", "verdict")}
        known["differences"] = tuple(known["differences"])
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


def subtract_runs(better: list[float], worse: list[float]) -> tuple[float, ...]:
    """Return the differences of two sides, run by run."""
    return tuple(round(float(a - b), 6) for a, b in zip(better, worse, strict=True))
