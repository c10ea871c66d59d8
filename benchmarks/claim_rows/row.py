"""A claim, what was measured of it, and the verdict with as much power as the seeds give."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

MIN_DECIDING_RUNS = 5  # below that no claim is decided
CONFIDENCE = 0.95
MAX_PLANNED_RUNS = 1000  # more than that is no plan


@dataclass(frozen=True)
class Row:
    """One claim.

    Attributes:
        number: Of the claim, with a letter where it has several rows.
        claim: In words.
        paper: The paper's figure, or where it says so.
        ran: What was run.
        measured: Mean and spread of each side.
        differences: [runs], by how much the claim's better side is better, run by run (seeds, or toy runs).
        smallest: Effect that matters, in the unit of the differences, stated before anything is run.
        learnt: A figure of the networks, what it is by chance, and its name: where it is not above chance by half, nothing is
            decided. None where nothing is learnt.
        cause: The likely one, where the claim is contradicted.
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
        """Of the differences."""
        return float(np.mean(self.differences))

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the mean (Student's t); infinite for one run."""
        return compute_half_width(self._spread(), len(self.differences))

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
        """With mean, interval and verdict, for the results file."""
        margin = self.margin if math.isfinite(self.margin) else None  # JSON knows no infinity
        return asdict(self) | {"mean": self.mean, "margin": margin, "verdict": self.verdict}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Row":
        """As as_json wrote it; mean, interval and verdict are computed again."""
        known = {key: value for key, value in values.items() if key not in ("mean", "margin", "verdict")}
        known["differences"] = tuple(known["differences"])
        known["learnt"] = tuple(known["learnt"]) if known["learnt"] is not None else None
        return cls(**known)


def compute_half_width(spread: float, runs: int) -> float:
    """Of the 95 % interval of a mean of so many runs with this standard deviation; infinite for one run."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, runs - 1) * spread / math.sqrt(runs)) if runs > 1 else math.inf


def count_runs_needed(spread: float, effect: float) -> int:
    """The fewest runs, MIN_DECIDING_RUNS at least, after which the 95 % interval is narrower than the effect on either side.

    MAX_PLANNED_RUNS + 1 where even so many would not do.
    """
    counts = range(MIN_DECIDING_RUNS, MAX_PLANNED_RUNS + 1)
    return next((runs for runs in counts if compute_half_width(spread, runs) < effect), MAX_PLANNED_RUNS + 1)


def format_sides(values: dict[str, list[float]]) -> str:
    """Mean and spread over runs of each side, as text."""
    return ", ".join(
        f"{name} {np.mean(runs):.3f} ± {np.std(runs, ddof=1) if len(runs) > 1 else math.nan:.3f}" for name, runs in values.items()
    )


def subtract_runs(better: list[float], worse: list[float]) -> tuple[float, ...]:
    """Run by run."""
    return tuple(float(a - b) for a, b in zip(better, worse, strict=True))
