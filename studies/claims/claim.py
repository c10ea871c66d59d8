"""A claim before it is measured: its arms, each measured once for every seed, and how a row is made of their figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .row import Difference, Row, format_sides

Figures = dict[str, float]
CHANCE_FACTOR = 1.5  # times chance is what networks from random weights have to reach
Measured = dict[str, dict[str, list[float]]]  # by arm and figure, run by run


@dataclass(frozen=True)
class Arm:
    """What is measured once for every seed; claims share arms.

    Attributes:
        name: Its name in the results file.
        about: Settings and budget; another budget is another measurement.
        measure: Measures the figures of one seed.
        start: Measures the same figures before any training, where a network starts from given weights; None for others.
    """

    name: str
    about: dict[str, Any]
    measure: Callable[[int], Figures]
    start: "Arm | None" = None


@dataclass(frozen=True)
class Claim:
    """What a row of the table is made of.

    Attributes:
        number: Its number in the table, with a letter where a claim has several rows.
        text: The claim, in words.
        arms: What has to be measured for it.
        judge: Makes the row of what was measured.
    """

    number: str
    text: str
    arms: tuple[Arm, ...]
    judge: Callable[[Measured], Row]

    @property
    def all_arms(self) -> list[Arm]:
        """The arms and what they start from."""
        starts = [arm.start for arm in self.arms if arm.start is not None]
        return list({arm.name: arm for arm in (*self.arms, *starts)}.values())


class Side(NamedTuple):
    """A side of a comparison.

    Attributes:
        label: What the table calls it.
        arm: What is measured.
        figure: Which of the arm's figures counts.
    """

    label: str
    arm: Arm
    figure: str

    def runs(self, measured: Measured) -> list[float]:
        """Return the figure, run by run."""
        return measured[self.arm.name][self.figure]

    def start(self, measured: Measured) -> float | None:
        """Return the mean of the figure before any training; None where the network starts from random weights."""
        return (
            None if self.arm.start is None else float(np.mean(measured[self.arm.start.name][self.figure]))
        )


def find_learnt(
    measured: Measured, sides: Sequence[Side], chance: tuple[float, str], smallest: float
) -> tuple[float, float, str]:
    """Return what the best of the sides has reached, what it has to reach, and the figure's name, as in Row.

    Networks from given weights have to be better than the best of these by the smallest effect that matters, others better than
    chance by half.

    Args:
        measured: The figures.
        sides: The sides.
        chance: The figure of a network that has learnt nothing, and the figure's name.
        smallest: Smallest effect that matters.
    """
    least, name = chance
    starts = [start for side in sides if (start := side.start(measured)) is not None]
    figure = max(float(np.mean(side.runs(measured))) for side in sides)
    needed = max(starts) + smallest if starts else CHANCE_FACTOR * least
    return figure, needed, name


@dataclass(frozen=True)
class Comparison:
    """A claim that one side is better than another.

    Attributes:
        number: As in Claim.
        claim: The claim, in words.
        paper: The paper's figure, or the place where it makes the claim.
        ran: What is run, and its budget.
        better: The side that the paper says is better.
        worse: The side that it is compared with.
        smallest: Smallest effect that matters, in the unit of the figure.
        chance: The figure of a network that has learnt nothing, and the figure's name; None where nothing has to be learnt.
        skill: Sides that show what the networks have learnt, of which the best counts; empty for the two that are compared.
        beside: Further sides to show between the two.
        note: Makes further words of what was measured, shown first or last; None for none.
        cause: The likely cause, where the claim is contradicted.
    """

    number: str
    claim: str
    paper: str
    ran: str
    better: Side
    worse: Side
    smallest: float
    chance: tuple[float, str] | None
    skill: tuple[Side, ...] = ()
    beside: tuple[Side, ...] = ()
    note: Callable[[Measured], str] | None = None
    cause: str = ""

    def as_claim(self) -> Claim:
        """Return the claim with the arms of all sides."""
        sides = (self.better, self.worse, *self.skill, *self.beside)
        return Claim(
            self.number,
            self.claim,
            tuple({side.arm.name: side.arm for side in sides}.values()),
            self._judge,
        )

    def _judge(self, measured: Measured) -> Row:
        shown = {side.label: side.runs(measured) for side in (self.better, *self.beside, self.worse)}
        words = [format_sides(shown), *([self.note(measured)] if self.note is not None else [])]
        skill = self.skill or (self.better, self.worse)
        learnt = None if self.chance is None else find_learnt(measured, skill, self.chance, self.smallest)
        return Row(
            self.number,
            self.claim,
            self.paper,
            self.ran,
            "; ".join(words),
            Difference.between(self.better.runs(measured), self.worse.runs(measured)),
            self.smallest,
            learnt,
            self.cause,
        )
