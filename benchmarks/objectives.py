"""What an objective adds to the forward and backward pass of the network that it needs: time per step ÷ time of that pass.

    python benchmarks/objectives.py [--backbone resnet18] [--image-size 160] [--batch 64] [--dimensions 512] [--rounds 7]

The pass is measured with a sum instead of the loss; with domains it is that of four rotated copies of each image. In every round
the network runs once, and each objective computes its loss and gradient from the embeddings of that round. Batches hold four
images of each class or, for MultiGrain, four copies of each image. "s logged" is the objective as it is trained without SVMax.
"""

import argparse
from statistics import median
from typing import Any, NoReturn

import torch
from gpu_row import read_clock
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from torch import Tensor
from tqdm import tqdm

from image_copies.models.device import best_device
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.objectives.base import Objective
from image_copies.models.objectives.domains import sum_over_domains
from image_copies.models.objectives.settings import PAIRWISE, ObjectiveChoice, SvmaxSettings
from image_copies.models.objectives.svmax import Svmax

IMAGES_PER_CLASS, CLASSES = 4, 1000
MAX_RATIO = 1.10  # of the time of a step to that of the network's pass
FORMS = {
    "s logged": None,
    "SVMax bounded": SvmaxSettings(form="bounded"),
    "SVMax unbounded": SvmaxSettings(form="unbounded", weight=0.01),
}
Seconds = dict[str, list[float]]


def build_objectives(kinds: tuple[str, ...], dimensions: int, device: torch.device) -> dict[str, Objective]:
    """Build the objectives as training does; by name, "kind, form of SVMax"."""
    adapter: TypeAdapter[Any] = TypeAdapter(ObjectiveChoice)
    settings = {kind: adapter.validate_python({"kind": kind}) for kind in kinds}
    return {
        f"{kind}, {form}": Svmax(settings[kind].build(dimensions, CLASSES, 0), svmax).to(device)
        for kind in kinds
        for form, svmax in FORMS.items()
    }


def measure(
    descriptor: Descriptor, images: Tensor, tried: dict[str, Objective], rounds: int, repeats: int, bar: "tqdm[NoReturn]"
) -> tuple[list[float], Seconds]:
    """Return the seconds of the network's pass in each round, and those of each objective's loss and gradient."""
    device, labels = images.device, torch.arange(len(images), device=images.device) // IMAGES_PER_CLASS
    passes, seconds = list[float](), Seconds({name: [] for name in tried})
    for round_number in range(rounds + 1):
        started = read_clock(device)
        embeddings = descriptor(images, raw=True)
        embeddings.sum().backward()
        spent = read_clock(device) - started
        for name, objective in tried.items():
            times = [time_objective(objective, embeddings.detach(), labels) for _ in range(repeats)]
            if round_number:  # the first warms up
                seconds[name].append(median(times))
        if round_number:
            passes.append(spent)
        descriptor.zero_grad()
        bar.update()
    return passes, seconds


def time_objective(objective: Objective, embeddings: Tensor, labels: Tensor) -> float:
    """Return the seconds of the loss of embeddings [n, d], or with domains [4, n, d / 4], and of its gradient."""
    leaf = embeddings.requires_grad_()
    leaf.grad = None
    started = read_clock(leaf.device)
    loss = (sum_over_domains(objective, leaf, labels, labels) if leaf.ndim == 3 else objective(leaf, labels, labels)).loss
    loss.backward()
    return read_clock(leaf.device) - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="resnet18", help="default: resnet18, whose pass is short")
    parser.add_argument("--image-size", type=int, default=160, help="default: 160")
    parser.add_argument(
        "--batch", type=int, default=64, help=f"a multiple of {4 * IMAGES_PER_CLASS}; a quarter with domains; default: 64"
    )
    parser.add_argument("--dimensions", type=int, default=512, help="default: 512, with domains 128 a head")
    parser.add_argument("--rounds", type=int, default=7, help="default: 7")
    parser.add_argument("--repeats", type=int, default=3, help="of each objective in each round; default: 3")
    options = parser.parse_args()
    if options.batch % (4 * IMAGES_PER_CLASS) or options.dimensions % 4 or options.batch < 8 * IMAGES_PER_CLASS:
        parser.error(f"--batch must be a multiple of {4 * IMAGES_PER_CLASS} above it, --dimensions one of 4")
    torch.manual_seed(0)
    device, console = best_device(), Console(width=130)
    table = Table(*("objective", "SVMax", "domains", "pass, ms", "objective, ms", "step ÷ pass", "worst round", "≤ 1.10"))
    kinds = {None: (*PAIRWISE, "softmax", "multigrain"), "split": PAIRWISE}
    missed = 0
    with tqdm(total=2 * (options.rounds + 1), desc="measuring", unit="round", leave=False) as bar:
        for domains, of_domains in kinds.items():
            settings = DescriptorSettings(backbone=options.backbone, dimensions=options.dimensions, domains=domains)
            descriptor = Descriptor(settings, load_weights=False).to(device).train()
            batch, dimensions = (options.batch // 4, options.dimensions // 4) if domains else (options.batch, options.dimensions)
            images = torch.randn(batch, 3, options.image_size, options.image_size, device=device)
            tried = build_objectives(of_domains, dimensions, device)
            passes, seconds = measure(descriptor, images, tried, options.rounds, options.repeats, bar)
            for name, times in seconds.items():
                ratios = [1 + own / whole for own, whole in zip(times, passes, strict=True)]
                held = median(ratios) <= MAX_RATIO
                missed += not held
                table.add_row(
                    *name.split(", "),
                    domains or "",
                    f"{1000 * median(passes):.0f}",
                    f"{1000 * median(times):.1f}",
                    f"{median(ratios):.3f}",
                    f"{max(ratios):.3f}",
                    "yes" if held else "missed",
                )
    about = f"{options.backbone} at {options.image_size} px, batch {options.batch}, {options.dimensions} dimensions"
    print(f"{about}, on {device.type}; median of {options.rounds} rounds; {missed} of {table.row_count} above {MAX_RATIO}")
    console.print(table)


if __name__ == "__main__":
    main()
