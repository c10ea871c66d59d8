"""The papers' claims, one row each: what was run here, what came out, and the verdict.

    python benchmarks/claims.py [--quick] [--only 7 9] [--seeds 5] [--steps N] [--data FOLDER]
        [--results FILE.json] [--plot FILE.png]

--data: a folder in the ISC2021 layout for claims 10 to 12; default `tiny` of the folder that COPYSETS names, otherwise the
built-in sample. Claims 2 to 9 use procedural shapes, drawn into a temporary folder.

Every figure is kept in the results file as soon as it is measured: a stopped run goes on, and more --seeds join those that are
there. A claim holds when the 95 % interval of the mean difference lies above zero, is contradicted when it lies below, and is
undecided otherwise, with the number of further seeds that would decide. The smallest effect that matters is stated with the
claim, before anything is run. `--only` without numbers prints the table of the file. --plot draws MultiGrain's trade-off from it.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from claim_rows import copies, ideal, multigrain, svmax, toy
from claim_rows.curves import collect_tradeoff, plot_tradeoff
from claim_rows.row import MIN_DECIDING_RUNS, Row
from claim_rows.store import Store, as_markdown, open_store
from claim_rows.training import Bench, draw_shapes
from drip import find_data
from rich.console import Console

from data.layout import open_isc_folder

STEPS, MINUTES = 300, 1.5  # of each training of claims 2 to 9; of each network of claims 10 to 12
QUICK_STEPS, QUICK_MINUTES, QUICK_SEEDS = 40, 0.2, 2
CLAIMS = tuple(str(number) for number in range(1, 13))


def measure_claims(store: Store, wanted: set[str], seeds: int, steps: int, minutes: float, data: Path | None) -> None:
    """Measure what the file lacks of the wanted claims, print each row, and keep the rows in the file."""
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        groups: list[tuple[set[str], Callable[[], Sequence[Row]]]] = [({"1"}, toy.rows)]
        if wanted & set("23456789"):
            bench = Bench(folder, steps, range(seeds), draw_shapes(folder / "shapes"), store)
            groups += [(set("23456"), lambda: multigrain.rows(bench)), (set("78"), lambda: svmax.rows(bench))]
            groups += [({"9"}, lambda: ideal.rows(bench))]
        if wanted & {"10", "11", "12"}:
            images = open_isc_folder(find_data(data, folder))
            groups += [({"10", "11", "12"}, lambda: copies.rows(images, folder, minutes, range(seeds), store))]
        for numbers, work in groups:
            if numbers & wanted:
                found = work()
                store.put(found)
                for row in found:
                    console.print(
                        f"{row.number}: {row.claim}: {row.measured} ({row.mean:+.3f} ± {row.margin:.3f}): {row.verdict}"
                    )


def main() -> None:
    """Parse the command line, measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps a training, {QUICK_SEEDS} seeds: does it run?")
    parser.add_argument("--only", nargs="*", metavar="N", help="numbers of claims; those measured together come together")
    parser.add_argument("--seeds", type=int, help=f"default: {MIN_DECIDING_RUNS}")
    parser.add_argument("--steps", type=int, help="of each training of claims 2 to 9")
    parser.add_argument("--minutes", type=float, help="of each network of claims 10 to 12")
    parser.add_argument("--data", type=Path, metavar="FOLDER")
    parser.add_argument("--results", type=Path, metavar="FILE.json", help="default: runs/claims.json, or claims-quick.json")
    parser.add_argument("--table", type=Path, metavar="FILE.md", help="also write the table there")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="top-1 and copies found by λ, as in MultiGrain's figure 5")
    options = parser.parse_args()
    store = open_store(options.results or Path("runs") / ("claims-quick.json" if options.quick else "claims.json"))
    measure_claims(
        store,
        wanted=set(CLAIMS if options.only is None else options.only),
        seeds=options.seeds or (QUICK_SEEDS if options.quick else MIN_DECIDING_RUNS),
        steps=options.steps or (QUICK_STEPS if options.quick else STEPS),
        minutes=options.minutes or (QUICK_MINUTES if options.quick else MINUTES),
        data=options.data,
    )
    table = as_markdown(store)
    print(table)
    if options.table:
        options.table.write_text(table + "\n", encoding="utf-8")
    if options.plot:
        plot_tradeoff(collect_tradeoff(store), options.plot)


if __name__ == "__main__":
    main()
