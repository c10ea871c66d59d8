"""What is to be measured on a GPU, part by part, next to its goals.

    python benchmarks/gpu.py --output DIR                         # all parts but drip
    python benchmarks/gpu.py --parts steps:v2s saving ways        # some parts, or items of parts, in this order
    python benchmarks/gpu.py --parts drip --data DIR --run DIR    # drip training; repeat it until it has finished
    python benchmarks/gpu.py --smoke                              # the same code at toy sizes on the CPU; figures mean nothing
    python benchmarks/gpu.py --docs                               # writes gpu.json's rows, copied from rows.jsonl, into gpu.md

Rows are appended to rows.jsonl in the folder of --output as they are measured. Where the process that measures dies, another
one goes on behind the item. What --seconds leaves no time for is left out.
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
from dataclasses import asdict
from pathlib import Path

import gpu_steps
import torch
from gpu_drip import measure_drip
from gpu_sizes import FULL, SMOKE, Sizes
from gpu_steps import WAYS, Row
from measurements import Measurements
from page_tables import make_table, write_tables

from image_copies.data.process import usable_cores
from image_copies.models.device import best_device, choose_algorithms, describe_device

RESULTS, COMMAND = Path(__file__).with_suffix(".json"), "benchmarks/gpu.py --docs"
DONE = "done.txt"  # names the items that a process has measured
HOST = "host"  # the part that needs no GPU
PARTS: dict[str, Callable[[torch.device, Sizes, str], Iterator[Row]]] = {
    "ways": gpu_steps.measure_way,
    "losses": gpu_steps.measure_losses,
    "steps": gpu_steps.measure_steps,
    "saving": gpu_steps.measure_saving,
    "determinism": gpu_steps.measure_determinism,
    HOST: gpu_steps.measure_host,
}
DRIP = "drip"  # a part that is asked for by name, since it takes a data set
Item = tuple[str, str]  # part, and what of it


def list_items(asked: Iterable[str], sizes: Sizes) -> list[Item]:
    """Return the items of parts, or of "part:how they begin", in the order in which they are asked for.

    Raises:
        ValueError: There is no such part or item.
    """
    ways = [f"{model} {way}" for model in sizes.compared for way in WAYS]
    known = {"ways": ways, "losses": list(sizes.compared), "steps": list(sizes.models), "saving": ["v2s-160"], HOST: ["v2s-160"]}
    found = list[Item]()
    for name in asked:
        part, _, begins = name.partition(":")
        items = known.get(part, [""]) if part in (*PARTS, DRIP) else []
        chosen = [(part, item) for item in items if item.startswith(begins)]
        if not chosen:
            raise ValueError(f"there is no {name!r}. Parts: {', '.join([*PARTS, DRIP])}" + (f"; items: {items}" if items else ""))
        found += chosen
    return found


def measure_here(items: Iterable[Item], options: argparse.Namespace, rows: Path) -> None:
    """Measure items in this process; append rows as they come, if one fails, one that says why, and a line to `DONE` for each."""
    for part, item in items:
        try:
            if part == DRIP:
                measured = measure_drip(options.data, options.run, options.recipe, options.limit, rows.parent, options.carried)
            else:
                measured = PARTS[part](best_device(), SMOKE if options.smoke else FULL, item)
            with choose_algorithms(deterministic=False):  # as in training
                for row in measured:
                    append_row(rows, part, row)
        except Exception as error:
            traceback.print_exc()
            said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            append_row(rows, part, Row(f"{item} failed".strip(), said, "to run", False, True))
        with (rows.parent / DONE).open("a", encoding="utf-8") as file:
            file.write(f"{part}:{item}\n")


def measure_apart(items: list[Item], arguments: list[str], rows: Path, deadline: float) -> None:
    """Have a process measure items until the deadline, and where it dies another one those behind the item at which it did."""
    done = rows.parent / DONE
    while items:
        done.write_text("", encoding="utf-8")
        left = deadline - time.monotonic()
        named = [f"{part}:{item}" for part, item in items]
        process = subprocess.Popen([sys.executable, __file__, *arguments, "--items", *named], start_new_session=True)
        died = ""
        try:
            status = process.wait(max(0.0, left))
            died = f"exit status {status}" if status else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        items = items[len(done.read_text(encoding="utf-8").splitlines()) :]
        if died and items:
            part, item = items.pop(0)
            append_row(rows, part, Row(f"{item} failed".strip(), died, "to run", False, True))
        elif items:
            for part, item in items:
                append_row(rows, part, Row(f"{item} left out".strip(), "the time was over"))
            return


def append_row(rows: Path, part: str, row: Row) -> None:
    """Append a row to the file, and print it."""
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"part": part} | asdict(row), ensure_ascii=False) + "\n")
    verdict = {True: f" (to reach: {row.bar}): pass", False: f" (to reach: {row.bar}): FAIL", None: ""}[row.passed]
    print(f"{part}: {row.what}: {row.figure}{verdict}", flush=True)


def read_table(rows: Path, start: int) -> list[tuple[str, Row]]:
    """Return parts and rows from a position in the file on."""
    with rows.open("rb") as file:
        file.seek(start)
        found = [json.loads(line) for line in file]
    return [(one.pop("part"), Row(**one)) for one in found]


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
    parser.add_argument("--parts", nargs="+", default=list(PARTS), metavar="PART[:ITEM]", help=f"of {', '.join([*PARTS, DRIP])}")
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
    drip.add_argument("--limit", type=float, default=480, help="seconds of training, which then is killed (default: 480)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(given)
    if options.docs:
        write_tables(make_tables(Measurements.open(RESULTS)), COMMAND)
        return 0
    try:
        items = list_items(options.items or options.parts, SMOKE if options.smoke else FULL)
    except ValueError as error:
        parser.error(str(error))
    if options.data is None and any(part == DRIP for part, _ in items):
        parser.error("the part drip needs --data, a folder in the ISC2021 layout or the tar that gpu_set.py writes")
    name = describe_device(best_device())
    if best_device().type == "cpu" and not options.smoke and any(part != HOST for part, _ in items):
        print(f"error: this benchmark measures a GPU, but torch runs on {name}. --smoke tests its code only.", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    rows = options.output / "rows.jsonl"
    if options.items is not None:
        measure_here(items, options, rows)
        return 0
    rows.touch()
    print(f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}, {usable_cores()} cores")
    start = rows.stat().st_size
    measure_apart(items, given, rows, time.monotonic() + options.seconds)
    return 1 if any(row.passed is False and (row.of_bits or not options.smoke) for _, row in read_table(rows, start)) else 0


if __name__ == "__main__":
    sys.exit(main())
