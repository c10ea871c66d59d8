"""The example of docs/matching.md does what it says."""

import re
import shutil
from pathlib import Path

import pytest

from image_copies.data.procedural.sample import write_pictures

DOCS = Path(__file__).parents[3] / "docs" / "matching.md"


def test_the_example_finds_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    list(write_pictures(Path("pictures"), "R", 4, seed=1, workers=1))
    Path("queries").mkdir()
    shutil.copy("pictures/R000001.jpg", "queries/copy.jpg")
    shutil.copy("pictures/R000001.jpg", "pictures/again.jpg")
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], str(DOCS), "exec"), {})
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "R000001.jpg is kept of 2 copies of each other",
        "True",
        "(1, 256)",
    ]
