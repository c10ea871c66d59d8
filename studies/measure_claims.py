"""The papers' claims, one row each: what was run here, what came out, and the verdict.

    python studies/measure_claims.py [--quick] [--only 7 9d] [--seeds 5] [--data FOLDER]
        [--photographs FOLDER [--weights FILE]] [--results FILE.json] [--docs] [--plot FILE.png]

--data: a folder in the ISC2021 layout for claims 10 to 12; default `tiny` of the folder that COPYSETS names, otherwise the
built-in sample, as with --quick. Claims 2 to 9 use procedural shapes, drawn into a temporary folder. With --photographs, class
folders or a collection whose SOURCES.tsv says which folder each had, claim 9 has further rows on them, with a network that starts
from --weights, such as ImageNet's.

Every figure is kept in the results file as soon as it is measured: a stopped run goes on, more --seeds join those that are there,
and several commands with other --only may share the file. The smallest effect that matters is stated with the claim, before
anything is run. A row holds when the 95 % interval of the mean difference lies beyond that effect, is contradicted when it lies
beyond it the other way, shows no effect that matters when it lies between both, and is undecided otherwise. A claim holds when
all its rows do.

--docs writes the rows into claims.json, the summary that git keeps, and their tables into claims.md and docs/papers.md. `--only`
without numbers prints the table of the summary.
"""

import argparse
import os
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from image_copies.data.errors import UserError
from image_copies.data.files import write_text
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.tools.datasets import make_sample
from image_copies.studies.claims import isc2021, summary
from image_copies.studies.claims.claim import Claim
from image_copies.studies.claims.row import MIN_DECIDING_RUNS, Row, read_number
from image_copies.studies.claims.training import Bench
from image_copies.studies.ideal import claims as ideal
from image_copies.studies.multigrain import claims as multigrain
from image_copies.studies.multigrain import toy
from image_copies.studies.multigrain.tradeoff import collect_tradeoff, plot_tradeoff
from image_copies.studies.svmax import claims as svmax

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from measurements import Measurements
from page_tables import write_table

STEPS, LONGER_STEPS, COPY_STEPS = 300, 600, 400  # of claims 7 to 9, 2 to 6, 10 to 12
QUICK_STEPS, QUICK_SEEDS = 10, 1
SHAPES: dict[str, Any] = {"descriptor": {"backbone": "test_efficientnet"}, "side": 48, "batch": 48}
# a size that the weights do not know
PHOTOGRAPHS: dict[str, Any] = {"side": 32, "batch": 32, "rate_factor": 0.1}
PHOTOGRAPH_STEPS = 100
PHOTOGRAPH_BACKBONE = {
    "backbone": "mobilenetv2_100",
    "model_args": {"pad_type": "same"},
    "mean": [0.5] * 3,
    "std": [0.5] * 3,
}


def list_claims(folder: Path, options: argparse.Namespace, seeds: int) -> list[Claim]:
    """Return the claims that the options ask for, in the order of their numbers.

    Args:
        folder: Where images and trainings are written.
        options: The command line.
        seeds: Number of runs.

    Raises:
        UserError: No claim has a number that was asked for.
    """

    def budget(steps: int) -> int:
        return options.steps or (QUICK_STEPS if options.quick else steps)

    shapes = Bench(folder, budget(STEPS), seeds, None, **SHAPES)
    longer = replace(shapes, folder=folder / "longer", steps=budget(LONGER_STEPS))
    benches = [(multigrain, longer), (svmax, shapes), (ideal, shapes)]
    if options.photographs is not None:
        start = {"weights": str(options.weights)} if options.weights is not None else {}
        descriptor = PHOTOGRAPH_BACKBONE | start
        place = folder / "photographs"
        steps = budget(PHOTOGRAPH_STEPS)
        benches.append(
            (ideal, Bench(place, steps, seeds, options.photographs, descriptor=descriptor, **PHOTOGRAPHS))
        )
    claims = toy.list_claims()
    for group, bench in benches:
        claims += group.list_claims(bench)
    if options.only is None or any(asked.startswith(("10", "11", "12")) for asked in options.only):
        data = (
            make_drawn_sample(folder)
            if options.quick and options.data is None
            else find_data(options.data, folder)
        )
        claims += isc2021.list_claims(isc2021.CopyBench(folder, data, budget(COPY_STEPS), seeds))
    chosen = (
        claims
        if options.only is None
        else [claim for claim in claims if is_asked_for(claim.number, options.only)]
    )
    if options.only and not chosen:
        asked = " or ".join(options.only)
        known = sorted(
            {claim.number.split(",")[0] for claim in claims},
            key=lambda number: (read_number(number), number),
        )
        raise UserError(
            f"no claim is called {asked}. There are {' '.join(known)} and 10 to 12; photographs needs --photographs."
        )
    return sorted(chosen, key=lambda claim: (read_number(claim.number), claim.number))


def find_data(given: Path | None, temporary: Path) -> Path:
    """Return the given folder, the unpacked tiny set, or a sample that is drawn into `temporary`."""
    if given is not None:
        return given
    archive = Path(os.environ.get("COPYSETS", ".")) / "tiny.zip"
    if not archive.is_file():
        print("without --data, and without tiny.zip in the folder COPYSETS: using the built-in sample")
        return make_drawn_sample(temporary)
    with zipfile.ZipFile(archive) as file:
        file.extractall(temporary / "tiny")
    return next(path.parent for path in (temporary / "tiny").rglob("training_images"))


def make_drawn_sample(folder: Path) -> Path:
    """Draw the built-in sample and return its folder."""
    make_sample(folder / "sample", 0)
    return folder / "sample"


def is_asked_for(number: str, only: Sequence[str]) -> bool:
    """Whether a claim is named: "9" names all rows of claim 9, "9d" those of 9d, "photographs" all of those."""
    return any(
        asked
        in (
            str(read_number(number)),
            number.split(",")[0],
            number.split(", ")[-1],
            number.replace(", ", ","),
        )
        for asked in only
    )


def measure_claim(store: Measurements, claim: Claim, seeds: Sequence[int]) -> Row:
    """Measure what the file lacks, one arm and seed at a time, and return the row."""
    measured = dict[str, dict[str, list[float]]]()
    entries = list[dict[str, Any]]()
    for arm in claim.all_arms:
        runs = store.measure(arm.name, arm.about, seeds, arm.measure)
        measured[arm.name] = {figure: [run[figure] for run in runs] for figure in runs[0]}
        entries += store.find(arm.name, arm.about).values()
    commits, machines = (
        sorted({entry.get(key, "not recorded") for entry in entries}) for key in ("commit", "machine")
    )
    return replace(claim.judge(measured), commit=", ".join(commits), machine="; ".join(machines))


def measure_claims(store: Measurements, claims: Sequence[Claim], seeds: int) -> tuple[list[Row], list[str]]:
    """Measure what the file lacks of the claims and print each row.

    Returns:
        The rows; numbers and texts of the claims that could not be measured, such as those of a training that diverged.
    """
    console = Console()
    rows = list[Row]()
    failed = list[str]()
    for claim in claims:
        try:
            row = measure_claim(store, claim, range(seeds))
        except UserError as error:
            failed.append(f"{claim.number}: {claim.text}")
            console.print(f"{failed[-1]}: not measured: {error}", markup=False)
            continue
        rows.append(row)
        console.print(
            f"{row.key}: {row.measured} ({row.difference.as_text()}): {row.verdict}", markup=False
        )
    return rows, failed


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps a training, one seed")
    parser.add_argument(
        "--only", nargs="*", metavar="N", help="claims (9) or rows (9d); photographs: all rows on them"
    )
    parser.add_argument("--seeds", type=int, help=f"default: {MIN_DECIDING_RUNS}")
    parser.add_argument("--steps", type=int, help="of each training")
    parser.add_argument("--data", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--photographs", type=Path, metavar="FOLDER", help="class folders, or a collection with SOURCES.tsv"
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help=f"of {PHOTOGRAPH_BACKBONE['backbone']}, for --photographs",
    )
    parser.add_argument(
        "--results", type=Path, metavar="FILE.json", help="default: runs/claims.json, or claims-quick.json"
    )
    parser.add_argument(
        "--docs",
        action="store_true",
        help="also write claims.json, claims.md and the table of docs/papers.md",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="MultiGrain's figures 5 and C.1 (ICLR), by λ"
    )
    return parser


def main() -> None:
    """Parse the command line, measure, and print the table."""
    options = make_parser().parse_args()
    store = Measurements.open(
        options.results or Path("runs") / ("claims-quick.json" if options.quick else "claims.json")
    )
    kept = summary.Summary.open(summary.SUMMARY)
    seeds = options.seeds or (QUICK_SEEDS if options.quick else MIN_DECIDING_RUNS)
    rows, failed = kept.rows, list[str]()
    if options.only is None or options.only:
        with tempfile.TemporaryDirectory() as name:
            rows, failed = measure_claims(store, list_claims(Path(name), options, seeds), seeds)
    print(summary.as_markdown(rows))
    if options.docs:
        kept.put(rows)
        write_text(summary.TABLE, summary.as_markdown(kept.rows) + "\n")
        write_table(summary.DOCUMENT, summary.COMMAND, summary.count_outcomes(kept.rows))
    if options.plot:
        plot_tradeoff(collect_tradeoff(store.measurements), options.plot)
    if failed:
        raise SystemExit("\n".join(["not measured:", *failed]))


if __name__ == "__main__":
    with report_errors():
        main()
