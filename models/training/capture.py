"""A training step whose tensors keep their places, so that a GPU repeats it as one CUDA graph instead of kernel by kernel."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from ..distributed import group_size
from ..objectives.base import ObjectiveOutput
from .model_settings import ModelSettings

GRAPH_DEVICES = ("cuda",)
WARM_UP = 3  # steps before the capture, in which libraries choose algorithms and Adam makes its moments
Work = Callable[[], ObjectiveOutput]


def suits_graph(settings: ModelSettings, device: torch.device) -> bool:
    """Whether a training's steps on the device all launch the same kernels, with nothing that the host decides in between."""
    optimizer = settings.optimizer
    adam = (
        optimizer.kind == "adam" and optimizer.class_kind in ("same", "adam") and optimizer.accumulate == 1
    )
    of_classes = settings.objective.positives is None and settings.svmax is None
    same_batches = settings.sampling.kind == "epoch" and settings.mix is None and not settings.turn
    wanted = settings.graph == "auto" and not settings.compile and settings.precision != "16"
    return (
        device.type in GRAPH_DEVICES
        and group_size() == 1
        and wanted
        and adam
        and of_classes
        and same_batches
    )


class StaticStep:
    """Makes steps on copies of batches and rates in fixed places: the first ones kernel by kernel, all others as one graph.

    Where no graph can be captured, all steps are made kernel by kernel, and one printed line says why.
    """

    def __init__(self, fabric: Fabric, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.fabric, self.optimizers = fabric, optimizers
        self.places: list[Tensor] = []
        self.rates: list[Tensor] = []
        self.aside: Any = None  # the stream of what precedes a capture, and of the capture
        self.made = 0
        # repeats the step; what it leaves each time
        self.graph: tuple[Callable[[], object], ObjectiveOutput] | None = None

    def __call__(self, step: Callable[..., ObjectiveOutput], *batch: Tensor) -> ObjectiveOutput:
        """Make a step on a batch whose tensors have the shapes of the first one's."""
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        device = self.fabric.device
        if not self.places:
            self.places = [torch.empty_like(tensor, device=device) for tensor in batch]
            self.rates = [torch.empty((), device=device) for _ in groups]
            self.aside = torch.cuda.Stream(device) if device.type == "cuda" else None
        for place, tensor in zip(self.places, batch, strict=True):
            place.copy_(tensor, non_blocking=True)
        for rate, group in zip(self.rates, groups, strict=True):
            rate.fill_(group["lr"])
        work = partial(step, *self.places)
        with _on_device(groups, self.rates, capturable=self.made == WARM_UP):
            if self.made == WARM_UP:
                self._capture(work)
            self.made += 1
            if self.graph is None:
                return run_aside(work, self.aside)
            repeat, output = self.graph
            repeat()
        logs = {
            name: value.clone() if isinstance(value, Tensor) else value
            for name, value in output.logs.items()
        }
        return replace(output, loss=output.loss.clone(), logs=logs)  # the next step overwrites them

    def _capture(self, work: Work) -> None:
        try:
            self.graph = record_graph(work, self.aside)
        except RuntimeError as error:
            for optimizer in self.optimizers:
                optimizer.zero_grad()  # gradients that were never computed
            reason = str(error.__context__ or error).partition("\n")[0]
            self.fabric.print(
                f"  steps are made kernel by kernel, as no CUDA graph can be captured: {reason}"
            )


@contextmanager
def _on_device(groups: list[dict[str, Any]], rates: list[Tensor], capturable: bool) -> Iterator[None]:
    """Within the block, optimisers read their rates from the device, as a graph does, which rounds them to float32."""
    before = [group["lr"] for group in groups]
    for group, rate in zip(groups, rates, strict=True):
        group |= {"lr": rate, "capturable": capturable}
    try:
        yield
    finally:
        for group, rate in zip(groups, before, strict=True):
            group |= {"lr": rate, "capturable": False}


def run_aside(work: Work, aside: Any) -> ObjectiveOutput:
    """Work on a GPU's other stream, as what precedes a capture must; None for no GPU."""
    if aside is None:
        return work()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        output = work()
    torch.cuda.current_stream().wait_stream(aside)
    return output


def record_graph(work: Work, aside: Any) -> tuple[Callable[[], object], ObjectiveOutput]:
    """Return what repeats the work's kernels, and the work's output, which each repetition overwrites; nothing is computed.

    Raises:
        RuntimeError: The work waits for the device, or does something else that no graph holds.
    """
    graph = torch.cuda.CUDAGraph()
    random = torch.cuda.default_generators[torch.cuda.current_device()]
    state = random.clone_state()
    try:
        with (
            torch.cuda.stream(torch.cuda.current_stream()),  # which a capture that fails does not restore
            # others have the loader and saving
            torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"),
            torch.autocast("cuda", enabled=False, cache_enabled=False),
        ):
            return graph.replay, work()
    except RuntimeError:
        random.graphsafe_set_state(state)  # as one that failed goes on counting for the graph
        raise
