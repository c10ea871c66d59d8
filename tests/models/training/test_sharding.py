"""A class matrix on 1, 2 and 4 processes: the same loss and gradients."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from image_copies.models.distributed import shard_rows

PROCESSES = Path(__file__).parent / "sharded_processes.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, dict[str, torch.Tensor]]]]:
    """What each of 1, 2 and 4 processes found, by number of processes."""
    folder = tmp_path_factory.mktemp("sharded")
    subprocess.run([sys.executable, str(PROCESSES), str(folder)], check=True, timeout=240)
    return {ranks: [torch.load(folder / f"{ranks}-{rank}.pt") for rank in range(ranks)] for ranks in (1, 2, 4)}


@pytest.mark.parametrize("case", ["plain", "margin 0", "fewer classes than processes", "rounded"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_agree_with_one(results: dict[int, list[dict[str, dict[str, torch.Tensor]]]], ranks: int, case: str) -> None:
    alone, parts = results[1][0][case], [result[case] for result in results[ranks]]
    tolerance = 1e-2 if case == "rounded" else 1e-5  # bfloat16 products of other parts
    assert torch.equal(torch.cat([part["matrix"] for part in parts]), alone["matrix"])
    for part in parts:
        torch.testing.assert_close(part["loss"], alone["loss"], rtol=tolerance, atol=tolerance)
    together = torch.cat([part["to_matrix"] for part in parts])
    torch.testing.assert_close(together, alone["to_matrix"], rtol=tolerance, atol=tolerance)
    averaged = torch.cat([part["to_embeddings"] for part in parts]) / ranks  # as data parallelism does
    torch.testing.assert_close(averaged, alone["to_embeddings"], rtol=tolerance, atol=tolerance)


def test_shards_are_consecutive_and_even() -> None:
    for classes, ranks in ((11, 4), (8, 4), (3, 4), (1, 1)):
        shards = [shard_rows(classes, rank, ranks) for rank in range(ranks)]
        assert [row for shard in shards for row in shard] == list(range(classes))
        assert max(map(len, shards)) - min(map(len, shards)) <= 1
