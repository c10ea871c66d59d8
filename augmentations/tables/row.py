"""What a row of an edit table is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from augmentations.edits.registry import OTHER_IMAGE, EditFunction

Parameters = dict[str, Any]
DrawParameters = Callable[[np.random.Generator, float], Parameters]  # (rng, intensity 0…1) → JSON-able keyword arguments
Probability = Callable[[float], float]  # intensity 0…1 → 0…1


@dataclass(frozen=True)
class Edit:
    """One row of an edit table.

    Attributes:
        name: of the row, unique in its table; it stands in records and in `query_edits.csv`.
        function: the edit function that the row applies.
        probability: how probable the edit is at an intensity.
        parameters: draws the function's parameters at an intensity, but for the image to paste.
        alternative: another function with its parameters, drawn instead with even odds.
        not_after: names of rows that exclude this one once they were applied.
    """

    name: str
    function: EditFunction
    probability: Probability
    parameters: DrawParameters
    alternative: tuple[EditFunction, DrawParameters] | None = None
    not_after: tuple[str, ...] = ()

    @property
    def functions(self) -> tuple[EditFunction, ...]:
        """The functions that the row may apply."""
        return (self.function,) if self.alternative is None else (self.function, self.alternative[0])

    @property
    def needs_overlay(self) -> bool:
        """Whether the row pastes another image."""
        return any(function.__name__ in OTHER_IMAGE for function in self.functions)

    def draw(self, rng: np.random.Generator, intensity: float) -> tuple[EditFunction, Parameters]:
        """One of the row's functions with its parameters at `intensity` 0…1, but for the image to paste."""
        function, parameters = self.function, self.parameters
        if self.alternative is not None and rng.random() >= 0.5:
            function, parameters = self.alternative
        return function, parameters(rng, intensity)

    def draw_entry(self, rng: np.random.Generator, intensity: float, other_ids: Sequence[str]) -> dict[str, Any]:
        """The entry of a record, JSON-able: "edit", "function", the parameters, the id of the image to paste.

        Args:
            rng: where all draws come from.
            intensity: 0…1.
            other_ids: the images that may be pasted; at least one if the row `needs_overlay`.
        """
        function, parameters = self.draw(rng, intensity)
        entry = {"edit": self.name, "function": function.__name__} | parameters
        if function.__name__ in OTHER_IMAGE:
            entry[OTHER_IMAGE[function.__name__]] = other_ids[int(rng.integers(len(other_ids)))]
        return entry


def always(share: float) -> Probability:
    """The same probability at every intensity."""
    return lambda intensity: share


def rising(share: float) -> Probability:
    """A probability of `share` × intensity."""
    return lambda intensity: share * intensity


def draw_nothing(rng: np.random.Generator, intensity: float) -> Parameters:
    """The parameters of an edit that has none."""
    return {}
