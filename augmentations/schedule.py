"""The intensity schedule of the edits within a drip stage."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IntensitySchedule:
    """An intensity that changes linearly over the first epochs and then stays constant.

    Attributes:
        start: Intensity in epoch 0, 0…1.
        end: Intensity from epoch `epochs` − 1 on, 0…1.
        epochs: Length of the ramp in epochs.
    """

    start: float
    end: float
    epochs: int

    def at(self, epoch: int) -> float:
        """Return the intensity in epoch 0, 1, …; negative epochs (the rebuild of the class matrix) have that of epoch 0."""
        share = min(1.0, max(0, epoch) / max(1, self.epochs - 1))
        return self.start + share * (self.end - self.start)
