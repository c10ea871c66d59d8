"""Columns of the tables of µAP on the synthetic queries: `choice.csv` and `synthetic_board.csv`."""

from collections.abc import Iterable

MEAN = "micro_average_precision"  # the column that decides
LEARNT_FAMILIES, LEFT_OUT_FAMILIES = "learnt_families", "left_out_families"  # of the two halves
ONE_FAMILY = "family_"  # begins the columns of the left-out families alone
_TITLES = {MEAN: "µAP", LEARNT_FAMILIES: "learnt families", LEFT_OUT_FAMILIES: "left-out families"}


def title_columns(columns: Iterable[str]) -> dict[str, str]:
    """Return the titles of those of `columns` that hold µAP, by column: of all queries, of both halves, of single families."""
    names = list(columns)
    halves = {name: title for name, title in _TITLES.items() if name in names}
    return halves | {name: name.removeprefix(ONE_FAMILY) for name in names if name.startswith(ONE_FAMILY)}
