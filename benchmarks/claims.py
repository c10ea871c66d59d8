"""The papers' claims, one row each: what was run here, what came out, and whether the claim holds.

    python benchmarks/claims.py [--quick] [--only 7 9] [--seeds 3] [--steps N] [--data FOLDER] [--output FILE.md]

--data: a folder in the ISC2021 layout for claims 10 to 12; default `tiny` of the folder that COPYSETS names, otherwise the
built-in sample. Claims 2 to 9 use procedural shapes, drawn into a temporary folder. A claim holds when the mean difference
over the seeds is above zero by two standard errors; none is made to hold.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from string import ascii_lowercase

from claim_rows import copies, ideal, multigrain, svmax, toy
from claim_rows.row import Row
from claim_rows.training import Bench, draw_shapes
from drip import find_data
from rich.console import Console

from data.layout import open_isc_folder

STEPS, MINUTES = 300, 1.5  # of each training of claims 2 to 9; of each network of claims 10 to 12
QUICK_STEPS, QUICK_MINUTES = 40, 0.2


def as_markdown(rows: list[Row], seconds: float) -> str:
    """A table; what was run stands below it, once for all the rows that share it."""
    letters = dict(zip(dict.fromkeys(row.ran for row in rows), ascii_lowercase, strict=False))
    lines = ["| # | claim | the paper's figure | run | measured here | difference | verdict |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        difference = f"{row.mean:+.3f} ± {row.error:.3f}"
        cells = (row.number, row.claim, row.paper, letters[row.ran], row.measured, difference, row.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {letter}: {ran}" for ran, letter in letters.items())]
    spread = "± after a side: standard deviation; after a difference: standard error."
    return "\n".join([*lines, "", f"All in {seconds / 60:.0f} min. {spread}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps a training instead of {STEPS}")
    parser.add_argument("--only", nargs="+", metavar="N", help="numbers of claims; those measured together come together")
    parser.add_argument("--seeds", type=int, default=3, help="default: 3")
    parser.add_argument("--steps", type=int, help="of each training of claims 2 to 9")
    parser.add_argument("--minutes", type=float, help="of each network of claims 10 to 12")
    parser.add_argument("--data", type=Path, metavar="FOLDER")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="also write the table there")
    options = parser.parse_args()
    steps = options.steps or (QUICK_STEPS if options.quick else STEPS)
    minutes = options.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    started, rows, console = time.monotonic(), list[Row](), Console()
    wanted = {str(number) for number in options.only or range(1, 13)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        groups: list[tuple[set[str], Callable[[], list[Row]]]] = [({"1"}, toy.rows)]
        if wanted & set("23456789"):
            bench = Bench(folder, steps, range(options.seeds), draw_shapes(folder / "shapes"))
            groups += [(set("23456"), lambda: multigrain.rows(bench)), (set("78"), lambda: svmax.rows(bench))]
            groups += [({"9"}, lambda: ideal.rows(bench))]
        if wanted & {"10", "11", "12"}:
            data = open_isc_folder(find_data(options.data, folder))
            groups += [({"10", "11", "12"}, lambda: copies.rows(data, folder, minutes, range(options.seeds)))]
        for numbers, work in groups:
            if numbers & wanted:
                found = work()
                rows += found
                for row in found:
                    console.print(f"{row.number}: {row.claim}: {row.measured} ({row.mean:+.3f} ± {row.error:.3f}): {row.verdict}")
    table = as_markdown(rows, time.monotonic() - started)
    print(table)
    if options.output:
        options.output.write_text(table + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
