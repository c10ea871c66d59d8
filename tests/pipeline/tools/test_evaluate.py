"""evaluate.py: descriptors of any origin in one table, and the papers' data sets."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from image_copies.studies.multigrain.sets import read_holidays
from image_copies.submissions.formats.submission import write_submission
from image_copies.submissions.vectors.files import Vectors
from tests.networks import save_small
from tests.onnx_files import write_means
from tests.pictures import write_images
from tests.runs import RunCommand


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two queries, of which one copies a reference, and four references."""
    for name, letter, count in (("training_images", "T", 2), ("reference_images", "R", 4), ("query_images", "Q", 2)):
        write_images(tmp_path / "data" / name, count, letter, seed=ord(letter))
    query, reference = (tmp_path / "data" / place for place in ("query_images/Q000000.jpg", "reference_images/R000001.jpg"))
    shutil.copy(reference, query)
    (tmp_path / "data" / "public_ground_truth.csv").write_text("query_id,reference_id\nQ000000,R000001\nQ000001,\n")
    return tmp_path / "data"


@pytest.fixture
def compare(run_command: RunCommand, tmp_path: Path) -> RunCommand:
    return lambda *arguments: run_command(tmp_path, "evaluate", *arguments)


def test_any_descriptors_are_compared_in_one_table(compare: RunCommand, data: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    save_small(tmp_path / "c.safetensors")
    write_means(tmp_path / "means.onnx")
    unit = np.eye(6, dtype=np.float32)
    wrong = unit[[2, 1, 2, 3, 4, 5]]  # the first query is as near to the first reference, which it does not copy, as can be
    np.save(tmp_path / "wrong.npy", wrong)
    ids = ["Q000000", "Q000001"], [f"R00000{number}" for number in range(4)]
    parts = (Vectors(names, rows, np.zeros(len(rows), bool)) for names, rows in zip(ids, (unit[[3, 0]], unit[2:]), strict=True))
    write_submission(tmp_path / "right.h5", *parts)
    done = compare("--data", data, "wrong.npy", "right.h5", "means.onnx", "c.safetensors", "shipped")
    assert done.returncode == 0, done.stderr
    rows = {cells[0]: cells[1:] for line in done.stdout.splitlines() if len(cells := line[1:-1].split("│")) == 8}
    figures = {name.strip(): [cell.strip() for cell in cells] for name, cells in rows.items()}
    assert set(figures) == {"wrong.npy", "right.h5", "means.onnx", "c.safetensors", "shipped"}
    assert float(figures["wrong.npy"][0]) < 0.5 and figures["wrong.npy"][4] == ""
    for name in ("right.h5", "means.onnx", "c.safetensors", "shipped"):  # the same bytes are nearest, whatever the network
        assert figures[name][0] == figures[name][2] == figures[name][3] == "1.0000" and float(figures[name][4]) > 0.5
    assert figures["right.h5"][6] == "" and figures["means.onnx"][6] != "" and float(figures["c.safetensors"][6]) > 0


def test_what_says_nothing_or_cannot_be_compared_is_named(compare: RunCommand, data: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "nothing.npy", np.zeros((6, 3), np.float32))
    done = compare("--data", data, "nothing.npy")
    assert "warning: nothing.npy: query: 2 vectors are zero, the first is that of 'Q000000'" in done.stdout
    done = compare("--data", data, "timm:none=nothing.npy")
    assert done.returncode == 2 and "timm" in done.stderr and "not a .npy" not in done.stderr
    np.save(tmp_path / "short.npy", np.eye(5, dtype=np.float32))
    for arguments, said in (
        (("short.npy",), "a row for each of 2 queries, then 4 references"),
        (("none.safetensors",), "there is no such file"),
        ((), "give both, as --data DIR A B"),
    ):
        done = compare("--data", data, *arguments)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def classifying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with a classifier of three classes beside it."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    save_file({"weight": torch.randn(3, 16), "bias": torch.zeros(3)}, folder / "classifier.safetensors")
    return save_small(folder / "c.safetensors")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_images(tmp_path_factory.mktemp("pictures"), 12).paths


@pytest.fixture
def evaluate(classifying: Path, run_command: RunCommand, tmp_path: Path) -> RunCommand:
    """evaluate(*arguments): the command with the checkpoint."""
    return lambda *arguments: run_command(tmp_path, "evaluate", "--checkpoint", classifying, *arguments)


def lay_by_class(pictures: list[Path], folder: Path, classes: str) -> None:
    """Copy each picture into the folder of a class, in turn."""
    for number, path in enumerate(pictures):
        target = folder / classes[number % len(classes)] / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())


def test_class_folders_with_a_classifier_and_holidays_in_their_shape(
    evaluate: RunCommand, pictures: list[Path], tmp_path: Path
) -> None:
    lay_by_class(pictures, tmp_path, "abc")
    shown = ("--protocol", "center_crop", "--pooling-exponent", 5)
    done = evaluate("--set", "class_folders", "--root", tmp_path, *shown)
    for figure in ("Recall@1", "NMI", "s: upper bound", "top-1", "top-5", "p 5.00"):
        assert figure in done.stdout, done.stdout + done.stderr
    (tmp_path / "jpg").mkdir()
    for number, path in enumerate(pictures):
        (tmp_path / "jpg" / f"{100_000 + 100 * (number // 3) + number % 3}.jpg").write_bytes(path.read_bytes())
    assert len(read_holidays(tmp_path).queries) == 4
    done = evaluate("--set", "holidays", "--root", tmp_path, "--protocol", "long_side", "--image-size", 64)
    assert "mAP" in done.stdout and "64 px, long_side" in done.stdout, done.stderr


def test_online_products_are_scored_at_the_papers_ranks(evaluate: RunCommand, pictures: list[Path], tmp_path: Path) -> None:
    """Recall@1, 10, 100 and 1000 (IDEAL, table 3), where CUB and Cars have 1, 2, 4 and 8; at the size of training the centre."""
    (tmp_path / "toaster_final").mkdir()
    rows = ["image_id class_id super_class_id path"]
    for number, path in enumerate(pictures):
        (tmp_path / "toaster_final" / path.name).write_bytes(path.read_bytes())
        rows.append(f"{number + 1} {number // 2 + 1} 1 toaster_final/{path.name}")
    for table in ("Ebay_train.txt", "Ebay_test.txt"):
        (tmp_path / table).write_text("\n".join(rows))
    done = evaluate("--set", "online_products", "--root", tmp_path)
    found = [word for word in done.stdout.split() if word.startswith("Recall@")]
    assert found == ["Recall@1", "Recall@10", "Recall@100", "Recall@1000"] and "32 px, center_crop" in done.stdout, done.stderr


def test_what_is_left_out_is_told(evaluate: RunCommand, pictures: list[Path], tmp_path: Path) -> None:
    """Above the size of training the whole image is shown."""
    lay_by_class(pictures[:8], tmp_path, "ab")
    (tmp_path / "a" / pictures[0].name).write_bytes(b"broken")
    done = evaluate("--set", "class_folders", "--root", tmp_path, "--image-size", 48)
    assert "48 px, long_side" in done.stdout, done.stderr
    assert "1 of 8 images are unreadable and match nothing, the first is" in done.stdout, done.stderr
    assert "no top-1: the classifier has 3 classes" in done.stdout and pictures[0].name in done.stdout


def test_wrong_input_is_told(evaluate: RunCommand, tmp_path: Path) -> None:
    done = evaluate("--set", "holidays", "--root", tmp_path)
    assert done.returncode == 2 and "jpg/" in done.stderr and "Traceback" not in done.stderr
    done = evaluate("--set", "ukb", "--root", tmp_path, "--distractors", tmp_path)
    assert done.returncode == 2 and "only be used with --set copydays" in done.stderr
    done = evaluate("--set", "ukb", "--root", tmp_path, "--pooling-exponent", "nan")
    assert done.returncode == 2 and "--pooling-exponent: nan: give a number above 0" in done.stderr
