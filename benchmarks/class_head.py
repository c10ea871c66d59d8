"""The chunked ArcFace head against the plain one: differences in loss and gradients, extra memory and time. Linux only.

    python benchmarks/class_head.py [--classes 200000] [--dimensions 256] [--batch 64] [--repeats 5]

On the CPU: the exact head, half-precision products, rounded rows, sampled negatives; the class matrix's optimisers; and how many
times the bytes of the matrix a step with Adam moves, counted in torch's operations. A step on a GPU: benchmarks/gpu.py.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from image_copies.models.objectives.arcface import ArcFace, angular_margin
from image_copies.models.objectives.settings import ArcFaceSettings
from image_copies.models.training.clipping import clip_gradients
from image_copies.models.training.schedule import build_optimizers
from image_copies.models.training.settings import OptimizerSettings

CHUNK, SAMPLED = ArcFaceSettings().chunk, 0.1
Loss = Callable[[Tensor, Tensor], Tensor]


class Traffic(TorchDispatchMode):
    """Counts the bytes that operations read and write; of indexed tensors, those of the rows that are picked or added."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name, schema = func._schema.name, func._schema
        if func.is_view or name in ("aten::empty_like", "aten::detach", "aten::index_put_"):
            return result
        if name == "aten::index_add_":
            self.bytes += 3 * _bytes(args[3])
            return result
        given = [*args, *((kwargs or {}).get(argument.name) for argument in schema.arguments[len(args) :])]
        for argument, value in zip(schema.arguments, given, strict=True):
            written = argument.alias_info is not None and argument.alias_info.is_write
            only_written = written and (argument.name == "out" or name in ("aten::copy_", "aten::fill_", "aten::zero_"))
            self.bytes += (written + (not only_written and name != "aten::index")) * _bytes(value)
        if not any(found.alias_info for found in schema.returns):
            self.bytes += _bytes(result)
        return result


def _bytes(value: object) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


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


def print_steps(ways: dict[str, Loss], head: ArcFace, embeddings: Tensor, labels: Tensor, repeats: int) -> None:
    """Print the traffic and the processor seconds of a whole step with Adam as a GPU takes it, in one operation."""
    for option, value in ((-4, 0), (-1, 2**31 - 1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD: freed memory is kept, as torch keeps a GPU's
        ctypes.CDLL(None).mallopt(option, value)
    optimizer = build_optimizers(nn.Linear(1, 1), head, OptimizerSettings(), fused=True)[-1]

    def step(loss_of: Loss) -> float:
        started = time.process_time()
        optimizer.zero_grad()
        loss_of(embeddings, labels).backward()
        clip_gradients([head.matrix], 1.0)
        optimizer.step()
        return time.process_time() - started

    for name, loss_of in ways.items():
        step(loss_of)
        with Traffic() as traffic:
            step(loss_of)
        moved = traffic.bytes / _bytes(head.matrix.data)
        print(
            f"a step, {name}: moves {moved:.1f} × the matrix; {min(step(loss_of) for _ in range(repeats)):.3f} processor seconds"
        )


def print_optimizers(head: ArcFace) -> None:
    """Print what each optimiser of the class matrix keeps between steps, and what it takes in addition during one."""
    for kind in ("same", "adafactor", "plain_sgd"):
        optimizer = build_optimizers(nn.Linear(1, 1), head, OptimizerSettings(class_kind=kind))[-1]
        head.matrix.grad = torch.randn_like(head.matrix) / len(head.matrix)
        measure(optimizer.step)  # makes the state
        seconds, extra = measure(optimizer.step)
        kept = sum(map(_bytes, optimizer.state.values()))
        name = "adam" if kind == "same" else kind
        print(f"{name}: keeps {kept / 2**20:.1f} MiB, takes {extra / 2**20:.0f} MiB more and {seconds:.3f} s in a step")


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
    half: dict[str, Loss] = {
        "chunked, bf16 products": partial(compute_chunked_loss, head, True),
        "chunked, bf16 products, rounded_rows": partial(compute_chunked_loss, rounded, True),
    }
    ways: dict[str, Loss] = {
        "plain": partial(compute_plain_loss, head),
        "chunked": partial(compute_chunked_loss, head, False),
        **half,
        f"chunked, {SAMPLED:.0%} of the negatives (an approximation)": partial(compute_chunked_loss, sampled, False),
    }
    size = _bytes(head.matrix.data) / 2**20
    print(f"CPU, {options.classes:,} classes × {options.dimensions} ({size:.0f} MiB), batch {options.batch}")
    print_differences(ways, head.matrix, embeddings, labels)
    print_costs(ways, head.matrix, embeddings, labels, options.repeats)
    print_optimizers(head)
    print_steps(half, head, embeddings, labels, options.repeats)


if __name__ == "__main__":
    main()
