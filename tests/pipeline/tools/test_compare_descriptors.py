"""evaluate.py --data: descriptors of any origin in one table."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data.procedural import write_pictures
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.submissions.formats.submission import write_submission
from image_copies.submissions.vectors.files import Vectors
from tests.onnx_files import write_means

Evaluate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two queries, of which one copies a reference, and four references."""
    for name, letter, count in (("training_images", "T", 2), ("reference_images", "R", 4), ("query_images", "Q", 2)):
        list(write_pictures(tmp_path / "data" / name, letter, count, seed=ord(letter), workers=1))
    query, reference = (tmp_path / "data" / place for place in ("query_images/Q000000.jpg", "reference_images/R000001.jpg"))
    shutil.copy(reference, query)
    (tmp_path / "data" / "public_ground_truth.csv").write_text("query_id,reference_id\nQ000000,R000001\nQ000001,\n")
    return tmp_path / "data"


@pytest.fixture
def evaluate(run_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> Evaluate:
    return lambda *arguments: run_command(tmp_path, "evaluate", *arguments)


def test_any_descriptors_are_compared_in_one_table(evaluate: Evaluate, data: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16))
    save_descriptor(tmp_path / "c.safetensors", network, 32, {})
    write_means(tmp_path / "means.onnx")
    unit = np.eye(6, dtype=np.float32)
    wrong = unit[[2, 1, 2, 3, 4, 5]]  # the first query is as near to the first reference, which it does not copy, as can be
    np.save(tmp_path / "wrong.npy", wrong)
    ids = ["Q000000", "Q000001"], [f"R00000{number}" for number in range(4)]
    parts = (Vectors(names, rows, np.zeros(len(rows), bool)) for names, rows in zip(ids, (unit[[3, 0]], unit[2:]), strict=True))
    write_submission(tmp_path / "right.h5", *parts)
    done = evaluate("--data", data, "wrong.npy", "right.h5", "means.onnx", "c.safetensors", "shipped")
    assert done.returncode == 0, done.stderr
    rows = {cells[0]: cells[1:] for line in done.stdout.splitlines() if len(cells := line[1:-1].split("│")) == 8}
    figures = {name.strip(): [cell.strip() for cell in cells] for name, cells in rows.items()}
    assert set(figures) == {"wrong.npy", "right.h5", "means.onnx", "c.safetensors", "shipped"}
    assert float(figures["wrong.npy"][0]) < 0.5 and figures["wrong.npy"][4] == ""
    for name in ("right.h5", "means.onnx", "c.safetensors", "shipped"):  # the same bytes are nearest, whatever the network
        assert figures[name][0] == figures[name][2] == figures[name][3] == "1.0000" and float(figures[name][4]) > 0.5
    assert figures["right.h5"][6] == "" and figures["means.onnx"][6] != "" and float(figures["c.safetensors"][6]) > 0


def test_vectors_that_say_nothing_are_told(evaluate: Evaluate, data: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "nothing.npy", np.zeros((6, 3), np.float32))
    done = evaluate("--data", data, "nothing.npy")
    assert "warning: nothing.npy: query: 2 vectors are zero, the first is that of 'Q000000'" in done.stdout
    done = evaluate("--data", data, "timm:none=nothing.npy")
    assert done.returncode == 2 and "timm" in done.stderr and "not a .npy" not in done.stderr


def test_what_cannot_be_compared_is_named(evaluate: Evaluate, data: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.eye(5, dtype=np.float32))
    for arguments, said in (
        (("short.npy",), "a row for each of 2 queries, then 4 references"),
        (("none.safetensors",), "there is no such file"),
        ((), "give both, as --data DIR A B"),
    ):
        done = evaluate("--data", data, *arguments)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
