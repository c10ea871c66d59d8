"""Everything to be measured on a GPU, part by part, with a table of figures and goals at the end.

    python benchmarks/gpu.py --output DIR                      # all parts but tiny
    python benchmarks/gpu.py --parts search steps --output DIR # some, in this order
    python benchmarks/gpu.py --parts tiny --data DIR --run DIR # drip training on the tiny set; repeat it until it has finished
    python benchmarks/gpu.py --smoke                           # the same code at toy sizes on the CPU; its figures mean nothing

Parts: product (half-precision products summed in float32), nccl (exchange between processes, one for each GPU), search
(25,000 × 1,000,000), neighbours (of query normalisation), decoding (JPEG files), batches (a training step of two models by batch
size: eager, compiled, as a CUDA graph), loader (edited images by workers and size), embed (as a share of the forward pass),
determinism (equal digests of two runs and of one killed and resumed), head (1.8 million classes with tf_efficientnet_b5), steps
(the seven models: time, shares, memory, layout, waits, save and resume), tiny (µAP after drip training).

Each part, and each model of a part, is measured by a separate process, so that what fails or is killed costs its own rows only.
Rows are appended to rows.jsonl in the folder of --output as they are measured. What --seconds leaves no time for is left out.
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
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from gpu_agreement import measure_determinism, measure_nccl, measure_product
from gpu_row import Row
from gpu_sizes import FULL, SMOKE, Sizes
from gpu_steps import KINDS, WAYS, measure_batches, measure_head, measure_steps
from gpu_throughput import measure_decoding, measure_embedding, measure_loader, measure_neighbours, measure_search
from gpu_tiny import measure_tiny
from rich.console import Console
from rich.table import Table

from image_copies.data.process import usable_cores
from image_copies.models.device import best_device, choose_algorithms, describe_device


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes:
        measure: Yields the rows of one of its items on a device.
        items: What it measures, each in a separate process, in this order.
    """

    measure: Callable[[torch.device, Sizes, str], Iterator[Row]]
    items: Callable[[Sizes], Iterable[str]] = lambda sizes: [""]


PARTS = {
    "product": Part(measure_product),
    "nccl": Part(measure_nccl),
    "search": Part(measure_search),
    "neighbours": Part(measure_neighbours),
    "decoding": Part(measure_decoding),
    "batches": Part(measure_batches, lambda sizes: [f"{model} {way}" for way in WAYS for model in sizes.batched]),
    "loader": Part(measure_loader),
    "embed": Part(measure_embedding, lambda sizes: [f"{backbone} {size}" for backbone, size in sizes.embed]),
    "determinism": Part(measure_determinism),
    "head": Part(measure_head, lambda sizes: [f"same {sizes.large_batch}", *(f"{kind} {sizes.head.batch}" for kind in KINDS)]),
    "steps": Part(measure_steps, lambda sizes: sizes.models),
}


def measure_here(part: str, item: str, options: argparse.Namespace, rows: Path) -> None:
    """Measure one item in this process; append its rows as they come, and if it fails, one that says why."""
    try:
        if part == "tiny":
            measured = measure_tiny(options.data, options.run, options.recipe, options.limit, rows.parent)
        else:
            measured = PARTS[part].measure(best_device(), SMOKE if options.smoke else FULL, item)
        with choose_algorithms(deterministic=False):  # as in training
            for row in measured:
                append_row(rows, part, row)
    except Exception as error:
        traceback.print_exc()
        said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        append_row(rows, part, Row(f"{item} failed".strip(), said, "to run", False, True))


def measure_apart(part: str, item: str, options: argparse.Namespace, rows: Path, deadline: float) -> None:
    """Have a separate process measure an item, and end it, with all that it started, at the deadline."""
    left, given = deadline - time.monotonic(), {"data": options.data, "run": options.run, "recipe": options.recipe}
    if left <= 0:
        append_row(rows, part, Row(f"{item} left out".strip(), "no time was left"))
        return
    command = [sys.executable, __file__, "--parts", part, "--item", item, "--output", str(rows.parent)]
    command += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    command += ["--limit", str(options.limit), *(["--smoke"] if options.smoke else [])]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        if process.wait(left):
            append_row(rows, part, Row(f"{item} failed".strip(), f"exit status {process.returncode}", "to run", False, True))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        append_row(rows, part, Row(f"{item} ended".strip(), f"after {left:.0f} s, when the time was over"))


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


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "tiny"], default=list(PARTS), metavar="PART")
    parser.add_argument("--item", help="only this one of the part's models, in this process")
    parser.add_argument("--output", type=Path, metavar="DIR", default=Path("runs/gpu"), help="default: runs/gpu")
    parser.add_argument("--seconds", type=float, default=3600, help="for all parts together (default: 3600)")
    parser.add_argument("--smoke", action="store_true", help="toy sizes, on the CPU too: whether it runs, not how fast")
    tiny = parser.add_argument_group("of tiny")
    tiny.add_argument("--data", type=Path, metavar="DIR", help="the set in the ISC2021 layout")
    tiny.add_argument("--run", type=Path, metavar="DIR", default=Path("runs/gpu-tiny"), help="default: runs/gpu-tiny")
    tiny.add_argument("--recipe", type=Path, metavar="FILE", default=Path(__file__).with_name("gpu_tiny.yaml"))
    tiny.add_argument("--limit", type=float, metavar="SECONDS", default=400, help="training is killed then, to go on")
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if "tiny" in options.parts and options.data is None:
        parser.error("the part tiny needs --data DIR, the unpacked tiny set")
    name = describe_device(best_device())
    if best_device().type == "cpu" and not options.smoke:
        print(f"error: this benchmark measures a GPU, but torch runs on {name}. --smoke tests its code only.", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    rows = options.output / "rows.jsonl"
    if options.item is not None:
        measure_here(options.parts[0], options.item, options, rows)
        return 0
    rows.touch()
    start, deadline, sizes = rows.stat().st_size, time.monotonic() + options.seconds, SMOKE if options.smoke else FULL
    for part in options.parts:
        for item in PARTS[part].items(sizes) if part in PARTS else [""]:
            measure_apart(part, item, options, rows, deadline)
    found = read_table(rows, start)
    title = f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}, {usable_cores()} cores"
    print_table(found, f"TOY SIZES, no measurement: {title}" if options.smoke else title, options.smoke)
    return 1 if any(row.passed is False and (row.of_bits or not options.smoke) for _, row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
