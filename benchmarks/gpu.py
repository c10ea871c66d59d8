"""Everything to be measured on a GPU, part by part, with a table of figures and goals at the end.

    python benchmarks/gpu.py --output DIR                         # all parts but drip, the most decisive first
    python benchmarks/gpu.py --parts search loader:160 eager      # some parts, or items of parts, in this order
    python benchmarks/gpu.py --parts drip --data DIR --run DIR    # drip training; repeat it until it has finished
    python benchmarks/gpu.py --smoke                              # the same code at toy sizes on the CPU; figures mean nothing
    python benchmarks/gpu.py --docs                               # writes gpu.json's rows, copied from rows.jsonl, into gpu.md

Parts: product (half-precision products summed in float32), search (25,000 × 1,000,000), loader (edited images by workers),
eager (a training step of two models by batch size), head (1.8 million classes with tf_efficientnet_b5),
faster (the step as a CUDA graph and compiled), neighbours (of query normalisation), dedup (two blocks of vectors compared),
embed (as a share of the forward pass), nccl (exchange between processes, one for each GPU), determinism (equal digests of two
runs and of one killed and resumed), steps (the seven models: time, shares, memory, layout, waits, save and resume), drip (a
descriptor that is learnt in minutes).

Short parts that follow each other share a process, which a GPU takes ten seconds to start; each of the others has one of its own.
What fails or is killed costs its own rows only. Batches that the free memory cannot hold are skipped. Rows are appended to
rows.jsonl in the folder of --output as they are measured. What --seconds leaves no time for is left out.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from gpu_agreement import measure_determinism, measure_nccl, measure_product
from gpu_drip import measure_drip
from gpu_row import Row
from gpu_sizes import FULL, SMOKE, Sizes
from gpu_steps import KINDS, WAYS, measure_batches, measure_head, measure_steps
from gpu_throughput import measure_dedup, measure_embedding, measure_loader, measure_neighbours, measure_search
from measurements import Measurements
from page_tables import make_table, write_tables
from rich.console import Console
from rich.table import Table

from image_copies.data.process import usable_cores
from image_copies.models.device import best_device, choose_algorithms, describe_device

RESULTS, COMMAND = Path(__file__).with_suffix(".json"), "benchmarks/gpu.py --docs"
DONE = "done.txt"  # names the items that a process has measured


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes:
        measure: Yields the rows of one of its items on a device.
        items: What it measures, in this order.
        short: Whether its items need no process of their own.
    """

    measure: Callable[[torch.device, Sizes, str], Iterator[Row]]
    items: Callable[[Sizes], Iterable[str]] = lambda sizes: [""]
    short: bool = False


PARTS = {
    "product": Part(measure_product, short=True),
    "search": Part(measure_search, short=True),
    "loader": Part(measure_loader, lambda sizes: map(str, sizes.loader), short=True),
    "eager": Part(measure_batches, lambda sizes: [f"{model} eager" for model in sizes.batched]),
    "head": Part(measure_head, lambda sizes: [f"same {sizes.large_batch}", *(f"{kind} {sizes.head.batch}" for kind in KINDS)]),
    "faster": Part(measure_batches, lambda sizes: [f"{model} {way}" for model in sizes.batched for way in WAYS if WAYS[way]]),
    "neighbours": Part(measure_neighbours, short=True),
    "dedup": Part(measure_dedup, short=True),
    "embed": Part(measure_embedding, lambda sizes: [f"{backbone} {size}" for backbone, size in sizes.embed]),
    "nccl": Part(measure_nccl),
    "determinism": Part(measure_determinism),
    "steps": Part(measure_steps, lambda sizes: sizes.models),
}
DRIP = "drip"  # a part that is asked for by name, since it takes a data set
Item = tuple[str, str]  # part, and what of it


def list_items(asked: Iterable[str], sizes: Sizes) -> list[Item]:
    """Return the items of parts, or of "part:item", in the order in which they are asked for.

    Raises:
        ValueError: There is no such part or item.
    """
    found = list[Item]()
    for name in asked:
        part, colon, item = name.partition(":")
        known = list(PARTS[part].items(sizes)) if part in PARTS else [""] if part == DRIP else []
        chosen = [each for each in known if each.startswith(item)] if colon else known
        if not chosen:
            raise ValueError(f"there is no {name!r}. Parts: {', '.join([*PARTS, DRIP])}" + (f"; items: {known}" if known else ""))
        found += [(part, each) for each in chosen]
    return found


def measure_here(items: Iterable[Item], options: argparse.Namespace, rows: Path) -> None:
    """Measure items in this process; append rows as they come, if one fails, one that says why, and a line to `DONE` for each."""
    for part, item in items:
        try:
            if part == DRIP:
                measured = measure_drip(options.data, options.run, options.recipe, options.limit, rows.parent, options.carried)
            else:
                measured = PARTS[part].measure(best_device(), SMOKE if options.smoke else FULL, item)
            with choose_algorithms(deterministic=False):  # as in training
                for row in measured:
                    append_row(rows, part, row)
        except Exception as error:
            traceback.print_exc()
            said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            append_row(rows, part, Row(f"{item} failed".strip(), said, "to run", False, True))
        with (rows.parent / DONE).open("a", encoding="utf-8") as file:
            file.write(f"{part}:{item}\n")


def measure_apart(items: list[Item], options: argparse.Namespace, rows: Path, deadline: float) -> None:
    """Have a separate process measure items, and end it, with all that it started, at the deadline.

    Where it dies, another one measures what is left behind the item at which it died.
    """
    given = {
        "data": options.data,
        "run": options.run,
        "recipe": options.recipe,
        "carried": options.carried,
        "limit": options.limit,
    }
    words = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    done = rows.parent / DONE
    while items:
        done.write_text("", encoding="utf-8")
        left, command = deadline - time.monotonic(), [sys.executable, __file__, "--output", str(rows.parent), *words]
        if left <= 0:
            for part, item in items:
                append_row(rows, part, Row(f"{item} left out".strip(), "no time was left"))
            return
        command += [*(["--smoke"] if options.smoke else []), "--items", *(f"{part}:{item}" for part, item in items)]
        process, died = subprocess.Popen(command, start_new_session=True), True
        try:
            ended = process.wait(left)
            died, said = ended != 0, Row("failed", f"exit status {ended}", "to run", False, True)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            said = Row("ended", f"after {left:.0f} s, when the time was over")
        items = items[len(done.read_text(encoding="utf-8").splitlines()) :]
        if died and items:
            part, item = items.pop(0)
            append_row(rows, part, replace(said, what=f"{item} {said.what}".strip()))


def group_items(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the items of each process: short ones that follow each other together, all others alone."""
    together = list[Item]()
    for item in items:
        if item[0] in PARTS and PARTS[item[0]].short:
            together.append(item)
            continue
        yield from ([together] if together else [])
        together = []
        yield [item]
    yield from ([together] if together else [])


def append_row(rows: Path, part: str, row: Row) -> None:
    """Append a row to the file, and print it."""
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"part": part} | asdict(row), ensure_ascii=False) + "\n")
    print(f"{part}: {row.what}: {row.figure}", flush=True)


def read_table(rows: Path, start: int) -> list[tuple[str, Row]]:
    """Return parts and rows from a position in the file on."""
    with rows.open("rb") as file:
        file.seek(start)
        found = [json.loads(line) for line in file]
    return [(one.pop("part"), Row(**one)) for one in found]


def print_table(rows: list[tuple[str, Row]], title: str, smoke: bool) -> None:
    """Print the table; at toy sizes, without verdicts on speed."""
    table = Table("part", "what", "figure", "to reach", "", title=title)
    for part, row in rows:
        verdict = None if smoke and not row.of_bits else row.passed
        table.add_row(part, row.what, row.figure, row.bar, {True: "pass", False: "FAIL", None: ""}[verdict])
    Console(width=150).print(table)


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of gpu.md: what was measured, and by which machine."""
    rows = [
        [*what.split(": ", 1), figure, entry["machine"].split(",")[0]]
        for entry in store.measurements
        for what, figure in entry["figures"].items()
    ]
    return {"gpu.md": make_table(["part", "what", "measured", "on"], rows)}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts",
        nargs="+",
        default=list(PARTS),
        metavar="PART[:ITEM]",
        help=f"{', '.join(PARTS)}, {DRIP} (default: all but {DRIP})",
    )
    parser.add_argument("--items", nargs="+", metavar="PART:ITEM", help=argparse.SUPPRESS)  # measured in this process
    parser.add_argument("--output", type=Path, metavar="DIR", default=Path("runs/gpu"), help="default: runs/gpu")
    parser.add_argument("--seconds", type=float, default=3600, help="for all parts together (default: 3600)")
    parser.add_argument("--smoke", action="store_true", help="toy sizes, on the CPU too: whether it runs, not how fast")
    parser.add_argument("--docs", action="store_true", help="measure nothing, write the table of docs/gpu.md")
    drip = parser.add_argument_group("of drip")
    drip.add_argument("--data", type=Path, metavar="PATH", help="folder in the ISC2021 layout, or the tar that gpu_set.py writes")
    drip.add_argument("--run", type=Path, metavar="DIR", default=Path("runs/gpu-drip"), help="default: runs/gpu-drip")
    drip.add_argument("--carried", type=Path, metavar="DIR", help="an earlier call's --output: its state is continued")
    drip.add_argument("--recipe", type=Path, metavar="FILE", default=Path(__file__).with_name("gpu_drip.yaml"))
    drip.add_argument(
        "--limit", type=float, metavar="SECONDS", default=480, help="training is killed then, to go on (default: 480)"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.docs:
        write_tables(make_tables(Measurements.open(RESULTS)), COMMAND)
        return 0
    sizes = SMOKE if options.smoke else FULL
    try:
        items = list_items(options.items or options.parts, sizes)
    except ValueError as error:
        parser.error(str(error))
    if options.data is None and any(part == DRIP for part, _ in items):
        parser.error("the part drip needs --data, a folder in the ISC2021 layout or the tar that gpu_set.py writes")
    name = describe_device(best_device())
    if best_device().type == "cpu" and not options.smoke:
        print(f"error: this benchmark measures a GPU, but torch runs on {name}. --smoke tests its code only.", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    rows = options.output / "rows.jsonl"
    if options.items is not None:
        measure_here(items, options, rows)
        return 0
    rows.touch()
    start, deadline = rows.stat().st_size, time.monotonic() + options.seconds
    for together in group_items(items):
        measure_apart(together, options, rows, deadline)
    found = read_table(rows, start)
    title = f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}, {usable_cores()} cores"
    print_table(found, f"TOY SIZES, no measurement: {title}" if options.smoke else title, options.smoke)
    return 1 if any(row.passed is False and (row.of_bits or not options.smoke) for _, row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
