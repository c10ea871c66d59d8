"""Everything to be measured on a GPU, part by part, with a table of figures and goals at the end.

    python benchmarks/gpu.py                                   # all parts but tiny
    python benchmarks/gpu.py --parts nccl steps                # some; each takes less than 8 minutes
    python benchmarks/gpu.py --parts tiny --data DIR --run DIR # drip training on the tiny set; repeat it until it has finished
    python benchmarks/gpu.py --smoke                           # the same code at toy sizes on the CPU; its figures mean nothing

Parts: nccl (exchange between processes, one for each GPU), steps (the seven models: time, shares, memory, layout, waits, save and
resume), head (1.8 million classes with tf_efficientnet_b5), loader (edited images by workers and size), embed (as a share of the
forward pass), search (25,000 × 1,000,000), neighbours (of query normalisation), determinism (equal digests of two runs and of one
killed and resumed), tiny (µAP after drip training). A part that fails says so in its row, and the others run.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from gpu_agreement import measure_determinism, measure_nccl
from gpu_row import Row
from gpu_sizes import FULL, SMOKE, Sizes
from gpu_steps import measure_head, measure_steps
from gpu_throughput import measure_embedding, measure_loader, measure_neighbours, measure_search
from gpu_tiny import measure_tiny
from rich.console import Console
from rich.table import Table

from image_copies.data.process import usable_cores
from image_copies.models.device import best_device, describe_device

PARTS: dict[str, Callable[[torch.device, Sizes], Iterator[Row]]] = {
    "nccl": measure_nccl,
    "steps": measure_steps,
    "head": measure_head,
    "loader": measure_loader,
    "embed": measure_embedding,
    "search": measure_search,
    "neighbours": measure_neighbours,
    "determinism": measure_determinism,
}


def measure(part: str, rows_of: Callable[[], Iterator[Row]], console: Console) -> list[Row]:
    """Print a part's rows as they are measured and return them; if the part fails, the last row says why."""
    started, rows = time.monotonic(), list[Row]()
    try:
        for row in rows_of():
            rows.append(row)
            console.print(f"{part}: {row.what}: {row.figure}")
    except Exception as error:
        traceback.print_exc()
        rows.append(Row("failed", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}", "to run", False, True))
    if part != "tiny":
        seconds = time.monotonic() - started
        rows.append(Row("the part itself", f"{seconds:.0f} s", "under 480 s", seconds < 480))
    return rows


def print_table(rows: list[tuple[str, Row]], title: str, smoke: bool, console: Console) -> None:
    """Print the table; at toy sizes, without verdicts on speed."""
    table = Table("part", "what", "figure", "to reach", "", title=title)
    for part, row in rows:
        table.add_row(
            part,
            row.what,
            row.figure,
            row.bar,
            {True: "pass", False: "FAIL", None: ""}[None if smoke and not row.of_bits else row.passed],
        )
    console.print(table)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "tiny"], default=list(PARTS), metavar="PART")
    parser.add_argument("--smoke", action="store_true", help="toy sizes, on the CPU too: whether it runs, not how fast")
    parser.add_argument("--data", type=Path, metavar="DIR", help="of tiny: the set in the ISC2021 layout")
    parser.add_argument("--run", type=Path, metavar="DIR", default=Path("runs/gpu-tiny"), help="of tiny (default: runs/gpu-tiny)")
    parser.add_argument("--limit", type=float, metavar="SECONDS", default=440, help="of tiny: training is killed then, to go on")
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if "tiny" in options.parts and options.data is None:
        parser.error("the part tiny needs --data DIR, the unpacked tiny set")
    device = best_device()
    name = describe_device(device)
    if device.type == "cpu" and not options.smoke:
        print(f"error: this benchmark measures a GPU, but torch runs on {name}. --smoke tests its code only.", file=sys.stderr)
        return 2
    sizes, console, rows = SMOKE if options.smoke else FULL, Console(width=150), list[tuple[str, Row]]()
    for part in options.parts:
        if part == "tiny":
            rows += [
                (part, row) for row in measure(part, lambda: measure_tiny(options.data, options.run, options.limit), console)
            ]
        else:
            rows += [(part, row) for row in measure(part, lambda part=part: PARTS[part](device, sizes), console)]  # type: ignore[misc]
    title = f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}, {usable_cores()} cores"
    print_table(rows, f"TOY SIZES, no measurement: {title}" if options.smoke else title, options.smoke, console)
    return 1 if any(row.passed is False and (row.of_bits or not options.smoke) for _, row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
