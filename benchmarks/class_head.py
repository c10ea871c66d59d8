"""The chunked ArcFace head against the plain one: same loss and gradients? extra memory? time? Linux, CPU.

python benchmarks/class_head.py [--classes 200000] [--dimensions 256] [--batch 64] [--repeats 5]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from models.objectives.arcface import ArcFace, angular_margin
from models.settings import ArcFaceSettings

Loss = Callable[[ArcFace, Tensor, Tensor], Tensor]


def plain(head: ArcFace, embeddings: Tensor, labels: Tensor) -> Tensor:
    """ArcFace as usually written: all logits [n, C] at once."""
    cosines = embeddings @ functional.normalize(head.matrix).T
    own = cosines.gather(1, labels[:, None])
    logits = cosines.scatter(1, labels[:, None], angular_margin(own, head.settings.margin))
    return functional.cross_entropy(head.settings.scale * logits, labels)


def chunked(head: ArcFace, embeddings: Tensor, labels: Tensor) -> Tensor:
    return head(embeddings, labels).loss


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith(field)))


def one_pass(loss_of: Loss, head: ArcFace, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, float, int]:
    """Loss, seconds and extra bytes of loss + backward; the matrix's gradient is not counted as extra."""
    head.matrix.grad = embeddings.grad = None
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # starts the high-water mark afresh
    started = time.perf_counter()
    loss = loss_of(head, embeddings, labels)
    loss.backward()
    seconds = time.perf_counter() - started
    extra = resident("VmHWM") - before - head.matrix.numel() * head.matrix.element_size()
    return loss.detach(), seconds, extra


def relative(ours: Tensor | None, theirs: Tensor) -> float:
    if ours is None:
        raise RuntimeError("backward left no gradient")
    return float((ours - theirs).norm() / theirs.norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("classes", 200_000), ("dimensions", 256), ("batch", 64), ("chunk", 65_536), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.manual_seed(0)
    head = ArcFace(options.dimensions, options.classes, ArcFaceSettings(chunk=options.chunk))
    embeddings = functional.normalize(torch.randn(options.batch, options.dimensions)).requires_grad_()
    labels = torch.randint(options.classes, (options.batch,))

    loss_plain, *_ = one_pass(plain, head, embeddings, labels)
    to_matrix, to_embeddings = head.matrix.grad, embeddings.grad
    assert to_matrix is not None and to_embeddings is not None
    loss_chunked, *_ = one_pass(chunked, head, embeddings, labels)
    print(
        f"relative difference: loss {abs(float(loss_chunked / loss_plain) - 1):.1e}, to matrix "
        f"{relative(head.matrix.grad, to_matrix):.1e}, to embeddings {relative(embeddings.grad, to_embeddings):.1e}"
    )
    del to_matrix, to_embeddings

    seconds: dict[str, list[float]] = {"plain": [], "chunked": []}
    extra: dict[str, list[int]] = {"plain": [], "chunked": []}
    for _ in range(options.repeats):  # interleaved, so that a busy machine slows both
        for name, loss_of in (("plain", plain), ("chunked", chunked)):
            _, spent, more = one_pass(loss_of, head, embeddings, labels)
            seconds[name].append(spent)
            extra[name].append(more)
    for name in seconds:
        print(f"{name}: {min(seconds[name]):.3f} s, extra memory {max(extra[name]) / 2**20:.0f} MiB")
    print(
        f"chunked / plain: time {min(seconds['chunked']) / min(seconds['plain']):.2f} (to reach ≤ 1.15), "
        f"memory {max(extra['chunked']) / max(extra['plain']):.2f} (to reach ≤ 0.25)"
    )


if __name__ == "__main__":
    main()
