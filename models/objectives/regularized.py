"""An objective with an additional term, which changes neither its parameters nor what it needs of a batch."""

from torch import Tensor, nn

from image_copies.models.distributed import gather_rows
from image_copies.models.objectives.base import ClassMatrix, Objective


class RegularizedObjective(Objective):
    """Subclasses add their term in `compute_loss`; class matrix, classifier and learning rates are those of the `objective`."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective
        self.takes_local_batch = objective.takes_local_batch

    def class_matrix(self) -> ClassMatrix | None:
        """Return the objective's class matrix."""
        return self.objective.class_matrix()

    def linear_classifier(self) -> nn.Linear | None:
        """Return the objective's classifier."""
        return self.objective.linear_classifier()

    def parameter_rates(self) -> dict[str, float]:
        """Return the objective's learning rates, under this module's parameter names."""
        return {f"objective.{name}": rate for name, rate in self.objective.parameter_rates().items()}

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows [b, …] of the whole batch, of which the objective may receive this process's part."""
        return gather_rows(rows) if self.takes_local_batch else rows
