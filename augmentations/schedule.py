"""How the intensity of the edits rises."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IntensitySchedule:
    """From `start` linearly to `end` over `epochs`, then constant; equal ends are a constant. Per drip stage one schedule."""

    start: float
    end: float
    epochs: int

    def at(self, epoch: int) -> float:
        """The intensity in epoch 0, 1, …; the rebuild of the class matrix, before epoch 0, uses the start."""
        share = min(1.0, max(0, epoch) / max(1, self.epochs - 1))
        return self.start + share * (self.end - self.start)
