"""A claim, what was measured of it, and whether it holds."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """differences [runs]: by how much the claim's better side is better, run by run (seeds, or toy runs)."""

    number: str
    claim: str
    paper: str
    ran: str
    measured: str
    differences: tuple[float, ...]
    cause: str = ""  # the likely one, given where the claim does not hold

    @property
    def mean(self) -> float:
        return float(np.mean(self.differences))

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return float(np.std(self.differences, ddof=1) / np.sqrt(len(self.differences)))

    @property
    def verdict(self) -> str:
        """It holds when the mean difference is above zero by two standard errors, and fails when it is not above zero."""
        if self.mean > 2 * self.error:
            return "holds"
        return f"does not hold{': ' if self.cause else ''}{self.cause}" if self.mean <= 0 else "not shown: within the spread"


def listed(values: dict[str, list[float]]) -> str:
    """Mean and spread over runs of each side, as text."""
    return ", ".join(f"{name} {np.mean(runs):.3f} ± {np.std(runs, ddof=1):.3f}" for name, runs in values.items())


def gaps(better: list[float], worse: list[float]) -> tuple[float, ...]:
    """Run by run."""
    return tuple(float(a - b) for a, b in zip(better, worse, strict=True))
