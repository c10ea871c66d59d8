"""The chunked ArcFace head against the plain one: differences in loss and gradients, extra memory and time. Linux only.

    python benchmarks/class_head.py [--classes 200000] [--dimensions 256] [--batch 64] [--repeats 5]

On the CPU: the exact head, half-precision products, rounded rows, sampled negatives. A step on a GPU: benchmarks/gpu.py.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from image_copies.models.objectives.arcface import ArcFace, angular_margin
from image_copies.models.objectives.settings import ArcFaceSettings

CHUNK, SAMPLED = ArcFaceSettings().chunk, 0.1
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


def measure(work: Callable[[], object]) -> tuple[float, int]:
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
    seconds, extra = measure(lambda: loss_of(embeddings, labels).backward())
    return seconds, extra - matrix.numel() * matrix.element_size()


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    """Return ‖ours − theirs‖ / ‖theirs‖."""
    return float((ours - theirs).norm() / theirs.norm())


def print_differences(ways: dict[str, Loss], matrix: nn.Parameter, embeddings: Tensor, labels: Tensor) -> None:
    """Print how far each way's loss and gradients are from the first one's, as relative errors."""
    first: list[Tensor] = []
    for name, loss_of in ways.items():
        loss = loss_of(embeddings, labels)
        found = [loss.detach(), *torch.autograd.grad(loss, [matrix, embeddings])]
        first = first or found
        loss_off, matrix_off, embeddings_off = (relative_error(ours, theirs) for ours, theirs in zip(found, first, strict=True))
        print(f"{name}: relative errors: loss {loss_off:.1e}, gradients {matrix_off:.1e} and {embeddings_off:.1e}")


def print_costs(ways: dict[str, Loss], matrix: nn.Parameter, embeddings: Tensor, labels: Tensor, repeats: int) -> None:
    """Print time and extra memory of each way, and their ratios to the first one's."""
    measured: dict[str, list[tuple[float, int]]] = {name: [] for name in ways}
    for _ in range(repeats):  # interleaved: a busy machine slows all alike
        for name, loss_of in ways.items():
            measured[name].append(measure_pass(loss_of, matrix, embeddings, labels))
    best = {name: (min(seconds for seconds, _ in found), max(extra for _, extra in found)) for name, found in measured.items()}
    plain_seconds, plain_extra = best["plain"]
    for name, (seconds, extra) in best.items():
        ratios = f"{seconds / plain_seconds:.2f} ×", f"{extra / plain_extra:.2f} ×"
        print(f"{name}: {seconds:.3f} s ({ratios[0]}), extra memory {extra / 2**20:.0f} MiB ({ratios[1]})")
    print("goal for the chunked head: time ≤ 1.15 ×, extra memory ≤ 0.25 ×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("classes", 200_000), ("dimensions", 256), ("batch", 64), ("chunk", CHUNK), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.manual_seed(0)
    head, rounded, sampled = (
        ArcFaceSettings(chunk=options.chunk, **given).build(options.dimensions, options.classes, 0)
        for given in ({}, {"rounded_rows": True}, {"negatives": SAMPLED})
    )
    rounded.matrix = sampled.matrix = head.matrix
    embeddings = torch.randn(options.batch, options.dimensions, requires_grad=True)
    labels = torch.randint(options.classes, (options.batch,))
    ways: dict[str, Loss] = {
        "plain": partial(compute_plain_loss, head),
        "chunked": partial(compute_chunked_loss, head, False),
        "chunked, bf16 products": partial(compute_chunked_loss, head, True),
        "chunked, bf16 products, rounded_rows": partial(compute_chunked_loss, rounded, True),
        f"chunked, {SAMPLED:.0%} of the negatives (an approximation)": partial(compute_chunked_loss, sampled, False),
    }
    size = head.matrix.nbytes / 2**20
    print(f"CPU, {options.classes:,} classes × {options.dimensions} ({size:.0f} MiB), batch {options.batch}")
    print_differences(ways, head.matrix, embeddings, labels)
    print_costs(ways, head.matrix, embeddings, labels, options.repeats)


if __name__ == "__main__":
    main()
