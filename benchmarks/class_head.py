"""The chunked ArcFace head against the plain one: differences in loss and gradients, extra memory and time. Linux only.

    python benchmarks/class_head.py [--classes 200000] [--dimensions 256] [--batch 64] [--repeats 5]   joins class_head.json
    python benchmarks/class_head.py --docs                                              writes the table of quality.md

On the CPU: the exact head, half-precision products, rounded rows. A step on a GPU: benchmarks/gpu.py.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from measurements import DIGITS, Figures, Measurements
from page_tables import make_table, parse_options
from torch import Tensor, nn
from torch.nn import functional

from image_copies.models.objectives.arcface import ArcFace, angular_margin
from image_copies.models.objectives.settings import ArcFaceSettings

RESULTS = Path(__file__).with_name("class_head.json")
COMMAND = "benchmarks/class_head.py --docs"
PLAIN = "all logits at once"
CHUNK = ArcFaceSettings().chunk
Loss = Callable[[Tensor, Tensor], Tensor]


def compute_plain_loss(head: ArcFace, embeddings: Tensor, labels: Tensor) -> Tensor:
    """ArcFace as usually written: all logits [n, C] at once."""
    cosines = functional.normalize(embeddings) @ functional.normalize(head.matrix).T
    own = cosines.gather(1, labels[:, None])
    logits = cosines.scatter(1, labels[:, None], angular_margin(own, head.margin))
    return functional.cross_entropy(head.scale * logits, labels)


def compute_chunked_loss(head: ArcFace, half: bool, embeddings: Tensor, labels: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        loss: Tensor = head(embeddings, labels).loss
        return loss


def read_memory(field: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith(field)))


def take(work: Callable[[], object]) -> tuple[float, int]:
    """Return the seconds that `work` took, and by how many bytes this process's memory rose at most."""
    ctypes.CDLL(None).malloc_trim(0)  # returns freed memory to the system, so that its reuse is counted
    before = read_memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    started = time.perf_counter()
    work()
    return time.perf_counter() - started, read_memory("VmHWM") - before


def measure_pass(loss_of: Loss, matrix: nn.Parameter, embeddings: Tensor, labels: Tensor) -> tuple[float, int]:
    """Return the seconds and the extra bytes of loss and backward pass, without the matrix's gradient."""
    matrix.grad = embeddings.grad = None
    seconds, extra = take(lambda: loss_of(embeddings, labels).backward())
    return seconds, extra - matrix.numel() * matrix.element_size()


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    """Return ‖ours − theirs‖ / ‖theirs‖."""
    return float((ours - theirs).norm() / theirs.norm())


def find_differences(ways: dict[str, Loss], matrix: nn.Parameter, embeddings: Tensor, labels: Tensor) -> Figures:
    """Return how far each way's loss and gradients are from the first one's: the largest relative error."""
    first: list[Tensor] = []
    figures = {}
    for name, loss_of in ways.items():
        loss = loss_of(embeddings, labels)
        found = [loss.detach(), *torch.autograd.grad(loss, [matrix, embeddings])]
        first = first or found
        figures[f"{name}: error"] = max(relative_error(ours, theirs) for ours, theirs in zip(found, first, strict=True))
    return figures


def find_costs(ways: dict[str, Loss], matrix: nn.Parameter, embeddings: Tensor, labels: Tensor, repeats: int) -> Figures:
    """Return the least time and the most extra memory of each way, in seconds and MiB."""
    measured: dict[str, list[tuple[float, int]]] = {name: [] for name in ways}
    for _ in range(repeats):  # interleaved: a busy machine slows all alike
        for name, loss_of in ways.items():
            measured[name].append(measure_pass(loss_of, matrix, embeddings, labels))
    figures = {f"{name}: s": min(seconds for seconds, _ in found) for name, found in measured.items()}
    return figures | {f"{name}: MiB": max(extra for _, extra in found) / 2**20 for name, found in measured.items()}


def measure(about: dict[str, int], seed: int) -> Figures:
    """Return differences and costs of all ways."""
    torch.manual_seed(seed)
    head, rounded = (
        ArcFaceSettings(chunk=about["chunk"], **given).build(about["dimensions"], about["classes"], 0)
        for given in ({}, {"rounded_rows": True})
    )
    rounded.matrix = head.matrix
    embeddings = torch.randn(about["batch"], about["dimensions"], requires_grad=True)
    labels = torch.randint(about["classes"], (about["batch"],))
    ways: dict[str, Loss] = {
        PLAIN: partial(compute_plain_loss, head),
        "in chunks": partial(compute_chunked_loss, head, False),
        "in chunks, bf16 products": partial(compute_chunked_loss, head, True),
        "in chunks, bf16 products, rounded rows": partial(compute_chunked_loss, rounded, True),
    }
    differences = find_differences(ways, head.matrix, embeddings, labels)
    return differences | find_costs(ways, head.matrix, embeddings, labels, about["repeats"])


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of quality.md: differences and costs of each way."""
    entry = store.measurements[-1]
    about, figures = entry["about"], entry["figures"]
    rows = []
    for name in [key.removesuffix(": s") for key in figures if key.endswith(": s")]:
        ratios = [f"{figures[f'{name}: {unit}'] / figures[f'{PLAIN}: {unit}']:.2f} ×" for unit in ("s", "MiB")]
        error = figures[f"{name}: error"]
        shown = f"{error:.0e}" if error else f"below 1e-{DIGITS}"
        rows.append([name, "" if name == PLAIN else shown, *ratios, f"{figures[f'{name}: MiB']:.0f}"])
    of = f"ArcFace, {about['classes']:,} × {about['dimensions']}, batch {about['batch']}"
    return {"quality.md": make_table([of, "relative error", "time", "extra memory", "MiB"], rows)}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = {"classes": 200_000, "dimensions": 256, "batch": 64, "chunk": CHUNK, "repeats": 5}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND, with_data=False)
    about = {name: getattr(options, name) for name in numbers}
    store.measure("class head", about, [0], partial(measure, about))
    print(*make_tables(store).values())


if __name__ == "__main__":
    main()
