"""What a run is to be warned of, and what its variant was chosen on: read from what steps 01 and 03 wrote, free of torch."""

from pathlib import Path

import pandas as pd

from image_copies.data.errors import UserError
from image_copies.data.files import open_regular
from image_copies.pipeline.run.run import Run
from image_copies.submissions.ensemble.synthetic_columns import MEAN

SUBMITTED, ENSEMBLE, MODEL, BASELINE = "submitted", "ensemble", "model", "baseline"  # kinds of the table's rows
REMEDY = (
    "give the stages more epochs, begin with fewer classes and weaker edits, start from weights (descriptor.weights), or join "
    "`gabor: {kind: gabor}` to the models"
)


def read_synthetic_board(path: Path) -> pd.DataFrame:
    """Return the table that `write_synthetic_board` wrote, best first.

    Raises:
        UserError: There is none, or the file is no such table.
    """
    try:
        with open_regular(path) as file:
            return pd.read_csv(file).sort_values(MEAN, ascending=False, kind="stable")
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path} is not the table that step 03 wrote ({error!r}). Delete it and do step 03 again.") from error


def find_warnings(board: pd.DataFrame) -> list[str]:
    """What needs no training and yet beats the submission or a trained model, and what to try."""
    rows = board.to_dict("records")
    floors = [row for row in rows if row["kind"] == BASELINE]
    best = max(floors, key=lambda row: float(row[MEAN]), default=None)
    warnings = []
    for row in rows:
        if best is not None and row["kind"] in (SUBMITTED, MODEL) and float(row[MEAN]) < float(best[MEAN]):
            what = "the submission" if row["kind"] == SUBMITTED else f"the model {row['name']}"
            warnings.append(
                f"{what} has a µAP of {row[MEAN]:.3f} on the synthetic queries, less than {best['name']} without any training "
                f"({best[MEAN]:.3f}): {REMEDY}."
            )
    return sorted(warnings, key=lambda text: not text.startswith("the submission"))


def read_curve(path: Path) -> pd.DataFrame:
    """Read a model's learning curve, a row per epoch; empty if there is none."""
    try:
        with open_regular(path) as file:
            return pd.read_csv(file)
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return pd.DataFrame()


def collect_warnings(run: Run) -> list[str]:
    """What step 03 and the trainings warned of, the submission first."""
    found = find_warnings(read_synthetic_board(run.paths.synthetic_board))
    for name in run.recipe.models:
        curve = read_curve(run.paths.curve(name))
        if len(curve):
            found += [f"{name}: {text}" for text in curve["warning"].dropna()]
    return found
