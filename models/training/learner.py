"""What is trained together in one stage, and a training step."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from timm.layers.norm_act import convert_sync_batchnorm
from torch import Tensor

from image_copies.augmentations.dataset import DOMAINS, normalize_pixels, rotate_to_domains
from image_copies.models.distributed import gather_rows, gather_together
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.objectives.base import Objective, ObjectiveOutput, sum_over_domains
from image_copies.models.objectives.svmax import describe_spread
from image_copies.models.training.capture import StaticStep, suits_graph
from image_copies.models.training.clipping import clip_gradients
from image_copies.models.training.mixing import draw_share, mix_batch
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.schedule import EpochSchedule, build_optimizers
from image_copies.models.training.settings import MixSettings, StageSettings

Figures = dict[str, Tensor | float]  # figures of one batch, by name


@dataclass(frozen=True)
class Learner:
    """Everything that is trained in a stage, and its training step."""

    fabric: Fabric  # the processes that train together, their device and precision
    descriptor: Descriptor
    network: Any  # the descriptor as Fabric wraps it: on its device, in its precision, data-parallel
    objective: Objective
    optimizers: list[Any]
    schedule: EpochSchedule
    clip: Callable[[], None] | None  # clips the gradients, in place
    turn: bool
    mix: MixSettings | None = None
    static: StaticStep | None = None

    def state(self) -> dict[str, Any]:
        """Return everything that training changes: weights, optimisers, schedule, gradient scaler and random states."""
        return {
            "descriptor": self.descriptor.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedule": self.schedule.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "memory_format": str(self.descriptor.memory_format),
            "random": [torch.get_rng_state()] + ([torch.cuda.get_rng_state()] if torch.cuda.is_available() else []),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state, except the descriptor's weights, which are loaded already."""
        self.objective.load_state_dict(state["objective"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
            _arrange_like_parameters(getattr(optimizer, "optimizer", optimizer))
        self.schedule.load_state_dict(state["schedule"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        torch.set_rng_state(state["random"][0])
        if torch.cuda.is_available() and len(state["random"]) > 1:
            torch.cuda.set_rng_state(state["random"][1])

    def compute_batch_loss(self, pixels: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
        """Compute the loss over the images of all processes; this one has pixels uint8 [n, 3, s, s], classes and rows int64 [n].

        Raises:
            UserError: The batch does not contain what the objective compares.
        """
        device = self.fabric.device
        images = normalize_pixels(pixels.to(device, non_blocking=True), self.descriptor.mean, self.descriptor.std)
        if self.turn:
            images = rotate_to_domains(images, torch.randint(len(DOMAINS), (len(images),)))
        labels, instances = labels.to(device, non_blocking=True), instances.to(device, non_blocking=True)
        share = self.fabric.broadcast(draw_share(self.mix)) if self.mix else None  # one for the batch of all processes
        if self.mix is None or share is None:
            return self._compare(self.network(images, raw=True), labels, instances)
        mixed, partner = mix_batch(images, share)
        embeddings = self.network(mixed, raw=True)
        partners = labels[partner]
        own = self._compare(embeddings, labels, instances, partners)
        others = self._compare(embeddings, partners, instances[partner], labels)
        return replace(own, loss=share * own.loss + (1 - share) * others.loss)

    def _compare(self, embeddings: Tensor, labels: Tensor, instances: Tensor, others: Tensor | None = None) -> ObjectiveOutput:
        """The loss of all processes' embeddings; these [n, d], or with domains [4, n, d / 4], are this process's part.

        `others` [n] are the classes that mixed images also show.
        """
        with self.fabric.autocast():
            if not self.objective.takes_local_batch:
                given = [labels, instances] if others is None else [labels, instances, others]
                rows, labels, instances, *rest = gather_together(embeddings.transpose(0, -2), *given)
                others = rest[0] if rest else None
                embeddings = rows.transpose(0, -2)  # [n, d] or, with domains, [4, n, d / 4]
            for module in self.objective.modules():
                if isinstance(module, Objective):
                    module.others = others
            if self.descriptor.settings.domains:
                return sum_over_domains(self.objective, embeddings, labels, instances)
            return self.objective(embeddings, labels, instances)

    def learn(
        self, batches: Iterable[tuple[Tensor, Tensor, Tensor]], count: int, measure: bool = True
    ) -> list[tuple[Figures, Tensor]]:
        """Make one optimiser step from the accumulated gradients of `count` batches: pixels, classes and image rows of each.

        Return the figures of each batch, left on the device, and its image rows. Nothing here waits for the device, unless
        figures that need it are to be measured, too.
        """
        made: list[tuple[Figures, Tensor]] = []
        self.objective.measures = measure
        for number, batch in enumerate(batches):
            step = partial(self._make_step, count=count, last=number == count - 1)
            try:
                output = step(*batch) if self.static is None else self.static(step, *batch)
                figures: Figures = {"loss": output.loss, **output.logs}
                if measure and output.rows is not None:
                    figures |= describe_spread(gather_rows(output.rows) if self.objective.takes_local_batch else output.rows)
            except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # singular values of NaN
                figures = {"loss": math.nan}
            made.append((figures, batch[2]))
        return made

    def _make_step(self, pixels: Tensor, labels: Tensor, instances: Tensor, count: int, last: bool) -> ObjectiveOutput:
        """Add the gradients of one of `count` batches, make the optimisers' step after the last, and return the detached loss."""
        with self.fabric.no_backward_sync(self.network, enabled=not last):
            output = self.compute_batch_loss(pixels, labels, instances)
            self.fabric.backward(output.loss / count)
        if last:
            self._arrange_gradients()
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad()
        return replace(output, loss=output.loss.detach())

    def _arrange_gradients(self) -> None:
        """Bring the gradients to their scale, and clip them if the settings say so."""
        for optimizer in self.optimizers:
            self.fabric.strategy.precision.unscale_gradients(getattr(optimizer, "optimizer", optimizer))
        if self.clip is not None:
            self.clip()


def _arrange_like_parameters(optimizer: torch.optim.Optimizer) -> None:
    """Give loaded moments the memory format of their parameters, which files do not store; mixed formats slow the step down."""
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride():
                state[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def set_up_network(
    fabric: Fabric, descriptor: Descriptor, compiled: bool, memory_format: torch.memory_format = torch.channels_last
) -> Any:
    """Wrap the descriptor with Fabric, and on several GPUs with synchronised batch normalisation."""
    if fabric.world_size > 1 and fabric.device.type == "cuda":
        descriptor.backbone = convert_sync_batchnorm(descriptor.backbone)
    fabric.to_device(descriptor)
    descriptor.arrange(memory_format)
    return fabric.setup_module(torch.compile(descriptor, dynamic=False) if compiled else descriptor)  # type: ignore[arg-type]  # what torch.compile returns is typed as any callable


def build_learner(
    fabric: Fabric, descriptor: Descriptor, network: Any, objective: Objective, settings: ModelSettings, stage: StageSettings
) -> Learner:
    """Move the objective to the device and build optimisers and schedule with the stage's learning rates."""
    factor, last = stage.learning_rate_factor, stage.last_learning_rate_factor
    fabric.to_device(objective)  # in place
    fused = fabric.device.type == "cuda" and settings.precision != "16"
    optimizers = build_optimizers(descriptor, objective, settings.optimizer, factor, fused)
    wrapped = [fabric.setup_optimizers(optimizer) for optimizer in optimizers]
    matrix, limit, clip = objective.class_matrix(), settings.optimizer.clip_norm, None
    if limit is not None:
        parameters = [*descriptor.parameters(), *objective.parameters()]  # once: to find them takes milliseconds of each step
        clip = partial(clip_gradients, parameters, limit, None if matrix is None else matrix.parameter)
    schedule = EpochSchedule(optimizers, settings.scheduler, last and last / factor)
    return Learner(
        fabric=fabric,
        descriptor=descriptor,
        network=network,
        objective=objective,
        optimizers=wrapped,
        schedule=schedule,
        clip=clip,
        turn=settings.turn,
        mix=settings.mix,
        static=StaticStep(fabric, optimizers) if suits_graph(settings, fabric.device) else None,
    )


def read_figures(batches: list[Figures]) -> list[dict[str, float]]:
    """Return the figures of several batches as numbers, with a single copy from the device."""
    tensors = [value.detach() for figures in batches for value in figures.values() if isinstance(value, Tensor)]
    numbers = iter(torch.stack(tensors).tolist() if tensors else [])
    return [
        {name: next(numbers) if isinstance(value, Tensor) else float(value) for name, value in figures.items()}
        for figures in batches
    ]
