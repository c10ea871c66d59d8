"""Training on 1, 2 and 4 processes: the same curve; a lost process is reported, and training goes on from the saved state."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from image_copies.data.images import ImageSet
from image_copies.models.training.curve import read_rows

PROCESS = Path(__file__).parent / "training_process.py"


@pytest.fixture(scope="module")
def pictures(images: ImageSet) -> Path:
    return images.paths[0].parent


def start(pictures: Path, folder: Path, ranks: int, last: int = 0, settings: str = "arcface") -> list[subprocess.Popen[str]]:
    """The processes as torchrun starts them; the second one dies at its step `last`. settings: a name of training_process.py."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    shared |= {"OMP_NUM_THREADS": "1", "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "test"}
    command = [sys.executable, str(PROCESS), str(pictures), str(folder), str(last), settings]
    return [
        subprocess.Popen(
            command,
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]


def curve(folder: Path) -> list[dict[str, str]]:
    return read_rows(folder / "model")


def finished(processes: list[subprocess.Popen[str]]) -> list[str]:
    reported = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), reported
    return reported


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "ranks", "figures", "error"),
    [
        ("arcface", 2, ("loss", "cosine_to_own_class"), 1e-5),
        ("arcface", 4, ("loss", "cosine_to_own_class"), 1e-5),
        ("svmax", 2, ("loss", "mean_singular_value", "singular_upper"), 1e-3),
        ("ideal", 2, ("loss", "mean_singular_value", "singular_upper"), 1e-3),
    ],
)
def test_the_curve_is_that_of_one_process(
    pictures: Path, tmp_path: Path, settings: str, ranks: int, figures: tuple[str, ...], error: float
) -> None:
    finished(start(pictures, tmp_path / "one", 1, settings=settings))
    finished(start(pictures, tmp_path / "several", ranks, settings=settings))
    alone, together = curve(tmp_path / "one"), curve(tmp_path / "several")
    assert len(alone) == len(together) == 4
    for one, several in zip(alone, together, strict=True):
        for name in figures:
            assert float(one[name]) == pytest.approx(float(several[name]), rel=error, abs=error)
        assert (one["step"], one["classes"], one["ended_by"]) == (several["step"], several["classes"], several["ended_by"])


@pytest.mark.slow
def test_a_lost_process_is_told_and_training_goes_on(pictures: Path, tmp_path: Path) -> None:
    finished(start(pictures, tmp_path / "whole", 2))
    survivor, dead = start(pictures, tmp_path / "broken", 2, last=5)
    reported = survivor.communicate(timeout=120)[0]
    dead.communicate(timeout=10)
    assert survivor.returncode == 2 and "a process of the training was lost" in reported, reported
    finished(start(pictures, tmp_path / "broken", 2))
    whole, broken = curve(tmp_path / "whole"), curve(tmp_path / "broken")
    assert [float(row["loss"]) for row in broken] == pytest.approx([float(row["loss"]) for row in whole], rel=1e-5)
