"""The example of docs/matching.md does what it says."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from image_copies.data.procedural import write_pictures
from image_copies.submissions.vectors.files import write_vectors

DOCS = Path(__file__).parents[3] / "docs" / "matching.md"


def test_the_example_finds_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    list(write_pictures(Path("pictures"), "R", 4, seed=1, workers=1))
    Path("queries").mkdir()
    shutil.copy("pictures/R000001.jpg", "queries/copy.jpg")
    shutil.copy("pictures/R000001.jpg", "pictures/again.jpg")
    unit = np.eye(3, 5, dtype=np.float32)
    write_vectors(Path("queries.h5"), ["Q1", "Q2", "Q3"], [unit])
    write_vectors(Path("references.h5"), ["R1", "R2", "R3"], [unit])
    Path("ground_truth.csv").write_text("query_id,reference_id\nQ1,R1\nQ2,\nQ3,R3\n")
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if "import image_copies" in block)
    exec(
        compile(block, str(DOCS), "exec"),
        known := {"query_vectors": unit, "training_vectors": np.eye(200, 5, dtype=np.float32) + 0.1},
    )
    assert isinstance(moved := known["moved"], np.ndarray) and moved.shape == unit.shape
    assert capsys.readouterr().out.splitlines()[-6:] == [
        "R000001.jpg is kept of 2 copies; a plan would remove 1",
        "0 pairs are likely copies or show one scene; nothing was left out",
        "again.jpg is copied",
        "same file",
        "(1, 256)",
        "0.5833333333333333",  # (1/2 + 2/3) / 2: Q2 and R2 are no copies, and as near as the others; false pairs come first
    ]
