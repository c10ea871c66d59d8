"""The examples of docs/house.md, copied literally into a copy of the checkout, work there and break no test beside them."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
COPIED = ("image_copies", "augmentations", "data", "models", "studies", "submissions", "tests", "pyproject.toml")
BLOCK = re.compile(
    r"^# (?P<file>[\w/.]+)(?:, (?P<where>in|before) (?P<name>\w+))?\n(?P<code>.*?)(?=^# [\w/.]+\.py|\Z)", re.M | re.S
)
RUN = (
    "tests/augmentations/edits/test_registry.py",
    "tests/augmentations/tables/test_strengths.py",
    "tests/studies/test_objectives.py",
    "-k",
    "keep_bits or circle or names or families or tables or records or every_function or kind",
)
USED = """
import torch
from pydantic import TypeAdapter
from image_copies.models.network.backbones import build_backbone
from image_copies.models.objectives.settings import ObjectiveChoice
built = build_backbone("patches", {}, False)
assert built.compute(built.network, torch.zeros(1, 3, 32, 32)).shape == (1, 64, 4, 4)
loss = TypeAdapter(ObjectiveChoice).validate_python({"kind": "circle"}).build(8, 2, 0)
assert loss(torch.eye(4, 8), torch.tensor([0, 0, 1, 1])).loss > 0
"""


def copy_into(text: str, where: str | None, name: str | None, code: str) -> str:
    """The text of a file with a piece of code: at its end, before the assignment of a name, or as a last part of its value."""
    if where is None:
        return f"{text}\n\n{code}"
    lines = text.splitlines(keepends=True)
    statements = (node for node in ast.parse(text).body if isinstance(node, (ast.Assign, ast.AnnAssign)))
    found = next(node for node in statements if name in ast.unparse(node).split(" = ")[0].split(":"))
    assert found.end_lineno is not None
    if where == "before":
        place = found.lineno - 1
        return "".join([*lines[:place], code.rstrip(), "\n\n\n", *lines[place:]])
    last = found.end_lineno - 1
    if lines[last][0] in ")]}":
        return "".join([*lines[:last], "    ", code.strip(), "\n", *lines[last:]])
    return "".join([*lines[:last], lines[last].rstrip(), " ", code.strip(), "\n", *lines[last + 1 :]])


@pytest.mark.slow
def test_the_examples_of_changes_work_as_they_are_written(tmp_path: Path) -> None:
    for each in COPIED:
        if (TOP / each).is_dir():
            shutil.copytree(TOP / each, tmp_path / each, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(TOP / each, tmp_path)
    changes = (TOP / "docs" / "house.md").read_text(encoding="utf-8").partition("## Changes")[2]
    pieces = [piece for block in re.findall(r"```python\n(.*?)```", changes, re.S) for piece in BLOCK.finditer(block)]
    assert len(pieces) == 7
    for piece in pieces:
        file = tmp_path / piece["file"]
        file.write_text(copy_into(file.read_text(encoding="utf-8"), *piece.group("where", "name", "code")), encoding="utf-8")
    for call in (["-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *RUN], ["-c", USED]):
        done = subprocess.run([sys.executable, *call], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
