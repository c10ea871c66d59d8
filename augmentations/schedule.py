"""How the intensity of the edits rises within a stage."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IntensitySchedule:
    """An intensity that rises linearly and then stays; equal ends give a constant. Each drip stage has one.

    Attributes:
        start: the intensity in epoch 0, 0…1.
        end: the intensity from the last of `epochs` on, 0…1.
        epochs: how long it rises.
    """

    start: float
    end: float
    epochs: int

    def at(self, epoch: int) -> float:
        """The intensity in epoch 0, 1, …; a negative epoch, the rebuild of the class matrix, has that of epoch 0."""
        share = min(1.0, max(0, epoch) / max(1, self.epochs - 1))
        return self.start + share * (self.end - self.start)
