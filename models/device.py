"""Device, memory, precision and determinism, and error messages for a missing GPU or exhausted memory."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TypeGuard

import torch
from torch import Tensor, nn

from image_copies.data.errors import UserError
from image_copies.data.process import DEVICE_VARIABLE, process_rank_on_machine, processes_on_machine

# required for deterministic products; read when cuBLAS starts
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# CUDA, CPU, cuDNN and cuBLAS
OUT_OF_MEMORY_PHRASES = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def best_device() -> torch.device:
    """Return the GPU of this process (local rank i uses GPU i), or the CPU if there is no GPU.

    The environment variable COPY_DETECTION_DEVICE names another: cpu, cuda or mps (Apple's GPUs, which are used only when named).

    Raises:
        UserError: This machine runs more processes than it has GPUs, or lacks the device that is named.
    """
    named = os.environ.get(DEVICE_VARIABLE, "")
    if named not in ("", "cpu", "cuda", "mps"):
        raise UserError(f"{DEVICE_VARIABLE}={named}: name cpu, cuda or mps, or leave it unset.")
    if named == "mps" and torch.backends.mps.is_available() and processes_on_machine() == 1:
        return torch.device("mps")
    if named == "mps" or (named == "cuda" and not torch.cuda.is_available()):
        raise UserError(
            f"{DEVICE_VARIABLE}={named}: torch finds no such device here for one process. Leave it unset."
        )
    if named == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    own = process_rank_on_machine()
    gpus = torch.cuda.device_count()
    if max(own + 1, processes_on_machine()) > gpus:
        raise UserError(
            f"{processes_on_machine()} processes were started on this machine, which has {gpus} GPU(s) to use: every process "
            f"needs one of its own. Start at most {gpus} (torchrun --nproc-per-node {gpus}), or check CUDA_VISIBLE_DEVICES."
        )
    torch.cuda.set_device(own)  # the default of calls that name no GPU, such as torch.cuda.synchronize()
    return torch.device("cuda", own)


def describe_device(device: torch.device) -> str:
    """Return the GPU's name, or "the CPU" with the reason why no GPU is used."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return "Apple's GPU (mps)"
    if os.environ.get(DEVICE_VARIABLE) == "cpu":
        return f"the CPU ({DEVICE_VARIABLE}=cpu)"
    if torch.version.cuda is None:
        return "the CPU (this torch is built without CUDA)"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:  # no driver, one too old, no GPU visible
        return f"the CPU ({str(error).split('. ')[0].rstrip('.')})"
    return "the CPU (torch sees no GPU)"


@contextmanager
def choose_algorithms(deterministic: bool) -> Iterator[None]:
    """Let torch use deterministic algorithms only within the block, or otherwise the fastest that cuDNN's benchmark finds.

    Raises:
        UserError: An operation of the network has no deterministic algorithm on its device.
    """
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
    )
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = not deterministic
    try:
        yield
    except RuntimeError as error:
        if not deterministic or "deterministic" not in str(error):
            raise
        raise UserError(
            f"deterministic: true is not possible with this network: {str(error).splitlines()[0]} Leave deterministic out of the "
            "recipe, or choose another backbone."
        ) from error
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before[1:]


@contextmanager
def report_lack_of_memory(work: str, remedy: str) -> Iterator[None]:
    """Turn an out-of-memory error in the block, on a GPU or the CPU, into a message for the user.

    `work`, with its sizes, continues "memory ran out"; `remedy` is a sentence.

    Raises:
        UserError: when memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_lack_of_memory(error):
            raise
        raise UserError(
            f"memory ran out {work}: {(str(error).splitlines() or ['no memory'])[0]} {remedy}"
        ) from error


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether the error means that torch or NumPy ran out of memory, on any device."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in OUT_OF_MEMORY_PHRASES
    )


def choose_precision(device: torch.device, precision: str) -> str:
    """Return a precision, but "32" for "bf16" on a CPU that would emulate it, which takes eight times as long as float32."""
    slow = precision == "bf16" and device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "32" if slow else precision


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Return the autocast context for a precision: "32" (none), "bf16" or "16"; `choose_precision` decides for "bf16"."""
    precision = choose_precision(device, precision)
    if precision == "32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16 if precision == "bf16" else torch.float16)


def keep_depthwise_exact(network: nn.Module) -> None:
    """Let the network's depthwise convolutions compute in float32 on a CPU under bfloat16's autocast.

    oneDNN has no fast bfloat16 kernel of their gradients, which take six times as long as those in float32: a core learns from
    65 images of 128 px a second with EfficientNet-Lite0 instead of 34, or 52 with all in float32.
    """
    for module in network.modules():
        if is_depthwise(module):
            module.forward = partial(_convolve_exactly, module.forward)  # type: ignore[method-assign]


def is_depthwise(module: nn.Module) -> TypeGuard[nn.Conv2d]:
    """Whether a layer convolves each channel by itself."""
    return isinstance(module, nn.Conv2d) and 1 < module.groups == module.in_channels


def _convolve_exactly(convolve: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    if images.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return convolve(images)
    with torch.autocast("cpu", enabled=False):
        return convolve(images.float()).to(torch.bfloat16)


def mark_arrival(device: torch.device) -> torch.cuda.Event | None:
    """Mark the end of what was launched; None on a device that is waited for anyway."""
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()
    event.record()
    return event
