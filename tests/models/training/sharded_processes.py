"""The processes of test_sharding, forked so that torch is imported once.

Each takes its part of the batch through its part of the class matrix and writes its results to a file.
"""

import os
import sys
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import distributed

from image_copies.models.objectives.settings import ArcFaceSettings

CLASSES, DIMENSIONS, BATCH = 11, 8, 10
CASES = {
    "plain": (CLASSES, ArcFaceSettings(scale=16, chunk=3)),
    "margin 0": (CLASSES, ArcFaceSettings(scale=16, margin=0.0, chunk=100)),
    "fewer classes than processes": (3, ArcFaceSettings(scale=16, chunk=2)),
    "rounded": (CLASSES, ArcFaceSettings(scale=16, chunk=3, rounded_rows=True)),
}


def work(folder: Path, rank: int, ranks: int) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
    if ranks > 1:
        distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/meeting-{ranks}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60)
        )
    torch.manual_seed(0)
    raw = torch.randn(BATCH, DIMENSIONS)
    labels = torch.tensor([0, 1, 0, 3, 4, 5, 1, 0, 2, 4])  # the last processes' classes do not occur
    bounds = [0, *sorted(7 * rank % BATCH + 1 for rank in range(1, ranks)), BATCH]  # parts of different sizes
    own = slice(bounds[rank], bounds[rank + 1])
    results = {}
    for name, (classes, settings) in CASES.items():
        head = settings.build(DIMENSIONS, classes, 1)
        local = raw[own].clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.rounded_rows):
            loss = head(local, labels[own] % classes).loss
        loss.backward()
        results[name] = {
            "loss": loss.detach(),
            "to_embeddings": local.grad,
            "matrix": head.matrix.detach(),
            "to_matrix": head.matrix.grad,
        }
    torch.save(results, folder / f"{ranks}-{rank}.pt")


if __name__ == "__main__":
    context = get_context("fork")
    every = [(rank, ranks) for ranks in (1, 2, 4) for rank in range(ranks)]
    running = [context.Process(target=work, args=(Path(sys.argv[1]), *one)) for one in every]
    for process in running:
        process.start()
    for process in running:
        process.join()
    sys.exit(any(process.exitcode for process in running))
