"""What the seven models of recipes/isc2021.yaml need of one GPU: memory of each stage by computation, hours from measured steps.

    python benchmarks/seven_models.py            # prints both tables, without a GPU; some minutes
    python benchmarks/seven_models.py --docs     # writes them into docs/gpu.md

Memory: what a forward pass keeps for backward, counted on tensors without content; weights, gradients and Adam's two moments of
the network and of the class matrix; one chunk of classes. Hours: images of the schedule × the step that was measured
(benchmarks/gpu.json), for 512 images of other networks by what an image keeps for backward, next to v2s-160.
"""

import sys
from pathlib import Path

import torch
from page_tables import make_table, write_tables
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from image_copies.models.network.descriptor import Descriptor
from image_copies.models.objectives.arcface import CHUNK_SHARE
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import StageSettings
from image_copies.pipeline.run.recipe import read_recipe

COMMAND = "benchmarks/seven_models.py --docs"
RECIPES = Path(__file__).parents[1] / "recipes"
GIB, CARD = 2**30, 79.6 * 2**30  # bytes; of an H100
EARLY_EPOCHS = 10  # of each stage but the last: theirs are not known
STEPS_OF_64 = {"v2s-160": 103.5, "nfnet-l1-384d": 104.6, "nfnet-l1-256d": 101.8, "b5-256d": 103.4}  # ms, eager, of an H100
IMAGES_PER_SECOND = {
    "v2s-160": 4995,
    "b5-256d": 2273,
    "b5-256d-large": 2273,
}  # at batch 512: compiled; eager, 1.8 million classes


def count_kept(model: ModelSettings, size: int) -> tuple[float, float, int]:
    """Return the bytes that an image keeps for backward in bf16, those that a step keeps whatever its batch, and parameters."""
    descriptor = Descriptor(model.descriptor, load_weights=False).train()
    weights = {parameter.untyped_storage()._cdata for parameter in descriptor.parameters()}
    few, more = (_count_saved(descriptor, weights, size, batch) for batch in (2, 4))
    return (more - few) / 2, 2 * few - more, sum(parameter.numel() for parameter in descriptor.parameters())


def _count_saved(descriptor: Descriptor, weights: set[int], size: int, batch: int) -> int:
    held: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            held[storage._cdata] = tensor
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True), torch.autocast("cpu", torch.bfloat16):
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            descriptor(torch.randn(batch, 3, size, size), raw=True)
        return sum(tensor.untyped_storage().nbytes() for tensor in held.values())


def count_memory(model: ModelSettings, stage: StageSettings, kept: tuple[float, float, int]) -> tuple[float, float, float]:
    """Return the bytes of the images, of the network and of the classes in a step."""
    per_image, fixed, parameters = kept
    width, classes = model.descriptor.dimensions or 0, stage.classes or 0
    rounded = getattr(model.objective, "rounded_rows", False)
    per_class = 4 * (3 * stage.batch_size + 2 * width)
    chunk = 1 << (int(CHUNK_SHARE * CARD) // per_class).bit_length() - 1
    head = 16.0 * classes * width + min(chunk, classes) * per_class + rounded * 2 * classes * (width + stage.batch_size)
    return per_image * stage.batch_size, 16.0 * parameters + fixed, head


def make_tables() -> dict[str, str]:
    """Return the table of hours, and that of the stage of each model, in both recipes, that takes the most memory."""
    theirs, fast = (read_recipe(RECIPES / f"{name}.yaml").trained_models for name in ("isc2021", "isc2021-batch-512"))
    kept: dict[tuple[str, int], tuple[float, float, int]] = {}
    memory, hours = list[list[str]](), list[list[str]]()
    for model in theirs.values():
        for stage in model.stages:
            key = (model.descriptor.backbone, stage.image_size)
            if key not in kept:
                kept[key] = count_kept(model, stage.image_size)
    small = kept[theirs["v2s-160"].descriptor.backbone, 160][0]
    for name, model in theirs.items():
        images = [0.0, 0.0]
        spent = [0.0, 0.0]
        most = [(0.0, ""), (0.0, "")]
        for number, (own, other) in enumerate(zip(model.stages, fast[name].stages, strict=True), 1):
            of_stage = kept[model.descriptor.backbone, own.image_size]
            for which, (each, stage) in enumerate(((model, own), (fast[name], other))):
                total = sum(count_memory(each, stage, of_stage)) / GIB
                most[which] = max(most[which], (total, f"{total:.0f} GiB: {stage.image_size} px, batch {stage.batch_size}"))
            last = number == len(model.stages)
            for which, epochs in enumerate((own.epochs if last or name == "v2l-512" else EARLY_EPOCHS, own.epochs)):
                learnt = epochs * (own.classes or 0)
                images[which] += learnt
                spent[which] += learnt / IMAGES_PER_SECOND.get(name, 4995 * small / of_stage[0]) / 3600
        memory.append([name, *(words for _, words in most)])
        step = STEPS_OF_64.get(name)
        at_64 = "" if step is None else f"{images[0] / 64 * step / 3.6e6:.0f}"
        how = "measured" if name in IMAGES_PER_SECOND else "estimated"
        hours.append([name, *(f"{count / 1e6:.0f} M" for count in images), at_64, f"{spent[0]:.1f}", f"{spent[1]:.1f}", how])
    stages = ["the most", "`isc2021.yaml`", "`isc2021-batch-512.yaml`"]
    spent_on = ["", "images", "at most", "hours at batch 64", "at 512", "at most, at 512", "the step of 512"]
    return {"gpu.md": make_table(spent_on, hours) + "\n\n" + make_table(stages, memory)}


if __name__ == "__main__":
    if "--docs" in sys.argv:
        write_tables(make_tables(), COMMAND)
    else:
        print(make_tables()["gpu.md"])
