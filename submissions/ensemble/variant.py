"""The variant of the ensemble that is submitted, and the file that records the choice."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from image_copies.data.errors import UserError
from image_copies.data.files import open_regular, write_text

from ..settings import Method

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Variant:
    """One way from concatenated embeddings to submitted vectors."""

    dimensions: int  # of the PCA that are kept
    eigen_power: float  # exponent of the eigenvalue that each kept dimension is multiplied by; −0.5 whitens
    method: Method
    beta: float  # strength β of the normalisation; 0 without one
    weights: tuple[float, ...] = ()  # of the models' vectors before they are concatenated; () if all are 1


def parse_variant(row: "pd.Series[Any]") -> Variant:
    """Return the variant of a row of the table of candidates."""
    if row["method"] not in get_args(Method):
        raise ValueError(f"unknown method {row['method']!r}, expected one of {', '.join(get_args(Method))}")
    weights = tuple(float(weight) for weight in row["weights"].split())
    return Variant(
        int(row["dimensions"]), float(row["eigen_power"]), row["method"], float(row["beta"]), weights
    )


def tabulate_variant(variant: Variant) -> dict[str, Any]:
    """Return the variant as a row of the table of candidates."""
    return asdict(variant) | {"weights": " ".join(f"{weight:g}" for weight in variant.weights)}


def write_choice(path: Path, table: "pd.DataFrame") -> None:
    """Write the candidates as CSV, in the order of the table; its first row is the chosen one.

    Raises:
        UserError: when the disk is full.
    """
    write_text(path, table.assign(chosen=[True, *[False] * (len(table) - 1)]).to_csv(index=False))


def read_choice(path: Path) -> "tuple[Variant, pd.DataFrame]":
    """Read the chosen variant and the table of all candidates that `write_choice` wrote.

    Raises:
        UserError: when the file is missing or is not a table of candidates.
    """
    import pandas as pd  # imported here: a descriptor from a file needs no table

    try:
        with open_regular(path) as file:
            table = pd.read_csv(file, dtype={"weights": str})
        table["weights"] = table["weights"].fillna("")
        best = table.iloc[0]
        return parse_variant(best), table
    except (OSError, ValueError, KeyError, IndexError) as error:  # pandas' parser errors are ValueErrors
        raise UserError(
            f"{path} is not a choice that step 03 wrote ({error!r}). Delete it and run step 03 again."
        ) from error


MEAN = "micro_average_precision"  # the column that decides
LEARNT_FAMILIES, LEFT_OUT_FAMILIES = "learnt_families", "left_out_families"  # of the two halves
TITLES = {MEAN: "µAP", LEARNT_FAMILIES: "learnt families", LEFT_OUT_FAMILIES: "left-out families"}
