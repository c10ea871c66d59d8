"""Parts of benchmarks/gpu.py: trainings that must agree, shared by processes and alone, repeated and resumed."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from gpu_row import Row
from gpu_sizes import Sizes
from torch import distributed
from torch.multiprocessing.spawn import spawn

from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import write_pictures
from image_copies.models.objectives.arcface import ArcFace
from image_copies.models.objectives.arcface import _multiply as multiply
from image_copies.models.training.learner import Learner
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import train_model


def measure_product(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare the class head's product of factors that are rounded to half precision with the same in float64."""
    left, right = (torch.randn(shape, device=device) for shape in ((64, 256), (256, 4096)))
    exact = left.bfloat16().double() @ right.bfloat16().double()
    apart = float((multiply(left, right, torch.bfloat16) - exact).abs().max())
    how = "torch.mm(out_dtype=float32)" if device.type == "cuda" else "a product in bf16, then converted"
    yield Row(how, f"off by {apart:.1e}", "at most 1e-3 on a GPU", apart <= (1e-3 if device.type == "cuda" else 1), True)


def measure_nccl(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare loss and gradients of a class matrix that is distributed over processes with those of one process."""
    processes = torch.cuda.device_count() if device.type == "cuda" else 2
    with tempfile.TemporaryDirectory() as folder:
        spawn(_exchange, (processes, device.type, folder), processes)
        apart = max(float(path.read_text()) for path in Path(folder).glob("*.txt"))
    backend = f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}" if device.type == "cuda" else "gloo"
    alone = "; with one GPU this shows that the library starts, and no exchange" if processes == 1 else ""
    figure = f"{processes} process(es), {backend}: off by {apart:.1e}{alone}"
    yield Row("shared class matrix against one process", figure, "at most 1e-5", apart <= 1e-5, True)


def _exchange(rank: int, processes: int, device_type: str, folder: str) -> None:
    """One process of `measure_nccl`; writes how far its part is from that of a process alone."""
    device = torch.device(device_type, rank) if device_type == "cuda" else torch.device("cpu")
    if device_type == "cuda":
        torch.cuda.set_device(rank)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes), LOCAL_WORLD_SIZE=str(processes))
    generator = torch.Generator().manual_seed(0)
    raw, labels = torch.randn(8 * processes, 16, generator=generator).to(device), torch.arange(8 * processes, device=device) * 3
    alone, whole = raw.clone().requires_grad_(), _arcface(processes, device)
    loss_alone = whole(alone, labels).loss
    loss_alone.backward()
    distributed.init_process_group(
        "nccl" if device_type == "cuda" else "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=processes
    )
    own, part = slice(8 * rank, 8 * rank + 8), _arcface(processes, device)
    local = raw[own].clone().requires_grad_()
    loss = part(local, labels[own]).loss
    loss.backward()
    assert alone.grad is not None and local.grad is not None and whole.matrix.grad is not None and part.matrix.grad is not None
    differences = [
        loss - loss_alone,
        local.grad / processes - alone.grad[own],  # data parallelism takes the mean over the processes
        part.matrix.grad - whole.matrix.grad[part.rows.start : part.rows.stop],
    ]
    apart = torch.stack([difference.detach().abs().max() for difference in differences]).max()
    distributed.all_reduce(apart, distributed.ReduceOp.MAX)
    distributed.barrier()
    Path(folder, f"{rank}.txt").write_text(str(float(apart)))
    distributed.destroy_process_group()


def _arcface(processes: int, device: torch.device) -> ArcFace:
    """Build a class matrix whose rows are distributed unevenly over the processes."""
    return ArcFace(16, 24 * processes + 1, margin=0.4, scale=16.0, chunk=64, seed=0).to(device)


def measure_determinism(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare the checkpoints of two trainings, and of one that was stopped within an epoch and continued."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        list(write_pictures(folder / "pictures", "T", sizes.pictures, 0))
        images = find_images(folder / "pictures")
        first = _train_and_digest(folder / "first", images, sizes, None)
        for what, other in (
            ("two trainings", _train_and_digest(folder / "second", images, sizes, None)),
            ("one stopped and resumed", _train_and_digest(folder / "third", images, sizes, stop=max(2, sizes.epochs * 4 // 3))),
        ):
            yield Row(f"{what}, digests", f"{first[:12]} {other[:12]}", "equal", first == other, True)


def _train_and_digest(folder: Path, images: ImageSet, sizes: Sizes, stop: int | None) -> str:
    """Train; return the digest of the weights.

    Args:
        folder: Folder of the training.
        images: The training images.
        sizes: Sizes of the part.
        stop: Step before which a first attempt is interrupted; None for none.
    """
    batch = min(64, len(images) // 2)
    settings = ModelSettings.model_validate(
        {
            "descriptor": sizes.trained,
            "precision": sizes.precision,
            "deterministic": True,
            "stages": [{"image_size": 64, "batch_size": batch, "epochs": sizes.epochs}],
        }
    )

    def train() -> Path:
        return train_model(settings, images, images, folder, folder.parent / "cache", seed=0)

    if stop is not None:
        with _stopping_at(stop), suppress(KeyboardInterrupt):
            train()
    return hashlib.sha256(train().read_bytes()).hexdigest()


@contextmanager
def _stopping_at(step: int) -> Iterator[None]:
    """Within the block, training saves its state after every step, and is interrupted at `step`."""
    from image_copies.models.training import stage

    learn, calls, before = (
        Learner.learn,
        list[int](),
        (stage.SAVE_INTERVAL_SECONDS, stage.SAVING_PAUSE, stage.STEPS_PER_CHECK),
    )

    def stopping(self: Learner, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt
        return learn(self, *arguments)

    stage.SAVE_INTERVAL_SECONDS, stage.SAVING_PAUSE, stage.STEPS_PER_CHECK = 0.0, 0.0, 1
    Learner.learn = stopping  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Learner.learn = learn  # type: ignore[method-assign]
        stage.SAVE_INTERVAL_SECONDS, stage.SAVING_PAUSE, stage.STEPS_PER_CHECK = before
