"""Devices, lack of memory and other processes, with stand-ins for the GPUs and processes that no test has."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.models import distributed as together
from image_copies.models.device import (
    autocast,
    best_device,
    choose_precision,
    describe_device,
    keep_depthwise_exact,
    report_lack_of_memory,
)
from image_copies.models.distributed import report_lost_process
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.embedders import embed_with_all
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.inference.torch_embedder import load_embedder
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor, check_image_sizes
from image_copies.studies.multigrain.whitening import FinalWhitening
from tests import trainings
from tests.networks import make_small, run_out_of_memory, save_small


def gpus(monkeypatch: pytest.MonkeyPatch, count: int, rank: int, processes: int) -> list[int]:
    """A machine with so many GPUs; the list fills with the GPUs that are made the current one."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    return chosen


def test_every_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = gpus(monkeypatch, count=4, rank=3, processes=4)
    assert best_device() == torch.device("cuda", 3) and chosen == [3]


@pytest.mark.parametrize("rank", [0, 2])
def test_more_processes_than_gpus_are_refused_on_all_of_them(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    gpus(monkeypatch, count=2, rank=rank, processes=3)
    with pytest.raises(UserError, match=r"3 processes .* has 2 GPU\(s\).*--nproc-per-node 2"):
        best_device()


def test_the_cpu_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise RuntimeError("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", no_driver)
    assert describe_device(torch.device("cpu")) == "the CPU (Found no NVIDIA driver on your system)"
    monkeypatch.setattr(torch.version, "cuda", None)
    assert describe_device(torch.device("cpu")) == "the CPU (this torch is built without CUDA)"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        MemoryError("Unable to allocate 4. GiB for an array"),
    ],
)
def test_lack_of_memory_names_the_work_and_a_remedy(error: Exception) -> None:
    with (
        pytest.raises(UserError, match=r"^memory ran out at 160 px: .* Lower batch_size\.$"),
        report_lack_of_memory("at 160 px", "Lower batch_size."),
    ):
        raise error


def test_the_processors_own_memory_counts_and_other_errors_pass() -> None:
    with pytest.raises(UserError, match="memory ran out"), report_lack_of_memory("here", "Buy more."):
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="shape"), report_lack_of_memory("here", "Buy more."):
        torch.zeros(3).view(2)


def test_a_size_that_takes_too_much_memory_is_not_called_untrainable(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = make_small()
    monkeypatch.setattr(descriptor.backbone, "forward_features", run_out_of_memory)
    with pytest.raises(UserError, match=r"memory ran out .*8192 px.* Lower image_size") as reported:
        check_image_sizes(descriptor, [8192])
    assert "cannot be trained" not in str(reported.value)


def test_embedding_and_whitening_name_batch_and_size_when_memory_runs_out(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, embedding = images.select(images.ids[:3]), EmbeddingSettings(workers=0)
    descriptor = make_small(dimensions=2, whiten=True)
    embedder = load_embedder(save_small(tmp_path / "one.safetensors", dimensions=2), embedding)
    # which tries the network on pictures
    monkeypatch.setattr("image_copies.models.inference.folding.fold_batch_norms", lambda descriptor, _: descriptor)
    monkeypatch.setattr(Descriptor, "forward", run_out_of_memory)
    checkpoint = Checkpoint(descriptor, 32, {})
    for blocks in (embed_images(checkpoint, images, embedding), embed_with_all([embedder], images, embedding)):
        with pytest.raises(UserError, match=r"batch of (3|16) images of 32 px was embedded.* Lower batch_size"):
            list(blocks)  # 16: on a CPU, batches are filled up
    with pytest.raises(UserError, match=r"whitening was fitted on batches of 64 images of 32 px.* Lower embedding.image_size"):
        FinalWhitening(trainings.make_settings(), 2, images, images, 0).learn(descriptor, embedding, 32)


def test_a_lost_process_is_reported_whatever_the_backend_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with (
        pytest.raises(UserError, match=r"a process of the embedding was lost .*process 0 of 2.*command again"),
        report_lost_process("embedding"),
    ):
        raise distributed.DistBackendError("communicator was aborted on rank 1")
    with pytest.raises(torch.OutOfMemoryError), report_lost_process("training"):
        raise torch.OutOfMemoryError("CUDA out of memory while NCCL was used")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(distributed.DistBackendError), report_lost_process("training"):
        raise distributed.DistBackendError("NCCL error")


@pytest.mark.parametrize(("supported", "used"), [(True, "bf16"), (False, "32")])
def test_a_cpu_that_would_emulate_bfloat16_computes_in_float32(
    monkeypatch: pytest.MonkeyPatch, supported: bool, used: str
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    cpu = torch.device("cpu")
    assert [choose_precision(cpu, precision) for precision in ("bf16", "32", "16")] == [used, "32", "16"]
    assert choose_precision(torch.device("cuda"), "bf16") == "bf16"
    with autocast(cpu, "bf16"):
        assert torch.is_autocast_enabled("cpu") is supported


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc")
def test_a_training_keeps_freed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of 64 MB, one after the other, take no new pages of the system once a few were freed."""
    monkeypatch.setenv("COPY_DETECTION_DEVICE", "cpu")
    program = """
import resource, torch
from image_copies.models.training.launch import launch_fabric
def count():
    old = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    sum(len(torch.ones(2**24)) for _ in range(5))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - old
plain = count()
launch_fabric("32")
for _ in range(4):  # where small allocations lie between, the first rounds take new pages
    kept = count()
print(plain, kept)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    plain, kept = map(int, done.stdout.split()[-2:])
    assert kept < plain / 2  # a system short of memory takes some back


def test_rows_of_a_step_are_gathered_after_one_exchange_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the numbers is what a GPU waits for: once a step, and not once for each tensor and process."""
    exchanges: list[int] = []

    def all_numbers(into: Tensor, own: Tensor) -> None:
        exchanges.append(int(own))
        into.copy_(torch.tensor([int(own), 1]))

    def all_rows(parts: list[Tensor], own: Tensor) -> None:
        for part in parts:
            part.copy_(own)  # the other process has the same rows, of which one counts

    monkeypatch.setattr(together, "group_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_gather_into_tensor", all_numbers)
    monkeypatch.setattr(distributed, "all_gather", all_rows)
    embeddings, labels = torch.arange(6.0).reshape(3, 2).requires_grad_(), torch.tensor([5, 6, 7])
    rows, classes = together.gather_together(embeddings, labels)
    assert exchanges == [3] and classes.tolist() == [5, 6, 7, 5]
    assert rows.tolist() == [*embeddings.tolist(), embeddings[0].tolist()]
    rows.square().sum().backward()
    expected: Any = 2 * 2 * embeddings.detach()
    assert torch.equal(embeddings.grad, expected)  # type: ignore[arg-type]  # it has one


def test_depthwise_convolutions_compute_in_float32_under_autocast() -> None:
    network = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 8, 1))
    images = torch.randn(2, 4, 9, 9)
    exact = network[0](images)
    keep_depthwise_exact(network)
    with torch.autocast("cpu", torch.bfloat16):
        found, deeper = network[0](images), network(images)
    assert found.dtype == deeper.dtype == torch.bfloat16 and torch.equal(found, exact.bfloat16())
    assert torch.equal(copy.deepcopy(network)[0](images), exact)
