"""A row of an edit table: how probable an edit is, and how each of its parameters is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..edits.registry import FAMILY_OF, OTHER_IMAGE, EditFunction
from ..settings import EditFamily

Parameters = dict[str, Any]
# (rng, intensity 0…1) → JSON-serialisable keyword arguments
DrawParameters = Callable[[np.random.Generator, float], Parameters]
Probability = Callable[[float], float]  # intensity 0…1 → probability 0…1


@dataclass(frozen=True)
class Edit:
    """One row of an edit table."""

    name: str  # unique in its table; written to records and to `query_edits.csv`
    function: EditFunction
    probability: Probability
    parameters: DrawParameters  # except the image to paste
    alternative: tuple[EditFunction, DrawParameters] | None = None  # applied instead with probability 0.5
    not_after: tuple[str, ...] = ()  # names of rows after which this one is not applied

    @property
    def functions(self) -> tuple[EditFunction, ...]:
        """Return the functions that the row may apply."""
        return (self.function,) if self.alternative is None else (self.function, self.alternative[0])

    @property
    def family(self) -> EditFamily:
        """The family of the row's functions."""
        return FAMILY_OF[self.function.__name__]

    @property
    def needs_overlay(self) -> bool:
        """Whether the row pastes another image."""
        return any(function.__name__ in OTHER_IMAGE for function in self.functions)

    def draw(self, rng: np.random.Generator, intensity: float) -> tuple[EditFunction, Parameters]:
        """Draw one of the row's functions and its parameters at `intensity` 0…1, except the image to paste."""
        function, parameters = self.function, self.parameters
        if self.alternative is not None and rng.random() >= 0.5:
            function, parameters = self.alternative
        return function, parameters(rng, intensity)

    def draw_entry(
        self, rng: np.random.Generator, intensity: float, other_ids: Sequence[str]
    ) -> dict[str, Any]:
        """Draw a JSON-serialisable entry of a record: "edit", "function", the parameters and the id of the image to paste.

        `other_ids`, of the images that may be pasted, is not empty if the row `needs_overlay`.
        """
        function, parameters = self.draw(rng, intensity)
        entry = {"edit": self.name, "function": function.__name__} | parameters
        if function.__name__ in OTHER_IMAGE:
            entry[OTHER_IMAGE[function.__name__]] = other_ids[int(rng.integers(len(other_ids)))]
        return entry


def always(share: float) -> Probability:
    """Return a constant probability of `share`, 0…1."""
    return lambda intensity: share


def rising(share: float) -> Probability:
    """Return a probability of `share` · intensity."""
    return lambda intensity: share * intensity


DrawValue = Callable[[np.random.Generator, float], Any]  # (rng, intensity 0…1) → one parameter


def drawn(**values: DrawValue) -> DrawParameters:
    """Draw the parameters one by one, in this order."""
    return lambda rng, intensity: {name: value(rng, intensity) for name, value in values.items()}


def between(low: float, high: float) -> DrawValue:
    """A number from low to high."""
    return lambda rng, intensity: rng.uniform(low, high)


def whole(low: int, high: int) -> DrawValue:
    """An integer from low to high − 1."""
    return lambda rng, intensity: int(rng.integers(low, high))


def grown(low: float, high: float, start: float = 0.0) -> DrawValue:
    """`start` and, in proportion to the intensity, a number between `low` and `high`."""
    return lambda rng, intensity: start + intensity * rng.uniform(low, high)


def up_to(most: float, start: float = 0.0) -> DrawValue:
    """`start` and up to `most` more, in proportion to the intensity."""
    return lambda rng, intensity: start + most * intensity * rng.random()


def mostly_full(least: float) -> DrawValue:
    """A number from `least` to 1, which is 1 with probability `least`."""
    return lambda rng, intensity: min(1.0, least + rng.random())


def one_of(*values: Any) -> DrawValue:
    """One of the values, each as probable as the others."""
    return lambda rng, intensity: values[rng.integers(len(values))]


def colour_between(low: int, high: int) -> DrawValue:
    """An RGB colour whose channels are from low to high − 1."""
    return lambda rng, intensity: [int(value) for value in rng.integers(low, high, 3)]


def coin(rng: np.random.Generator, intensity: float) -> bool:
    """True or False."""
    return bool(rng.random() < 0.5)


def seed(rng: np.random.Generator, intensity: float) -> int:
    """A seed of what an edit draws itself."""
    return int(rng.integers(2**31))


ANY_COLOUR = colour_between(0, 256)
PLACE = between(0, 1)
TURN = between(0, 360)


def draw_fill(rng: np.random.Generator, intensity: float) -> list[int]:
    """Black, white or any colour, a third each."""
    any_colour: list[int] = ANY_COLOUR(rng, intensity)
    return [[0, 0, 0], [255, 255, 255], any_colour][rng.integers(3)]
