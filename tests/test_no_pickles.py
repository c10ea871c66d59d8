"""No code runs what a file says: no call that unpickles, no YAML loader that builds objects, no eval."""

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings

TOP = Path(__file__).parents[1]
PACKAGES = ("augmentations", "benchmarks", "data", "matching", "models", "pipeline", "requirements", "submissions")
MODULES = {"cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
ATTRIBUTES = {("pickle", "load"), ("pickle", "loads"), ("pickle", "Unpickler"), ("pandas", "read_pickle"), ("pd", "read_pickle")}


class Harm:
    """What a malicious pickle does when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.mark,)


def _calls() -> Iterator[tuple[str, ast.AST]]:
    for package in PACKAGES:
        for path in sorted((TOP / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                yield str(path.relative_to(TOP)), node


def test_nothing_in_the_code_unpickles() -> None:
    found = []
    for file, node in _calls():
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found += [(file, name) for name in names if name.partition(".")[0] in MODULES]
        if isinstance(node, ast.Name) and node.id in ("eval", "exec"):
            found.append((file, node.id))
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        if (node.value.id, node.attr) in ATTRIBUTES:
            found.append((file, f"{node.value.id}.{node.attr}"))
    assert found == []


def test_what_could_unpickle_is_asked_not_to() -> None:
    calls = [(file, node) for file, node in _calls() if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    for file, node in calls:
        name = ast.unparse(node.func)
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if name == "torch.load":
            assert keywords.get("weights_only") == "True", file
        if name in ("np.load", "numpy.load"):
            assert keywords.get("allow_pickle", "False") == "False", file
        if name == "yaml.load":
            assert len(node.args) == 2 and ast.unparse(node.args[1]) == "_Loader", file  # a SafeLoader


@pytest.mark.parametrize("ending", [".pth", ".pt", ".safetensors"])
def test_a_malicious_pickle_is_refused_with_a_message(tmp_path: Path, ending: str) -> None:
    path, mark = tmp_path / f"weights{ending}", tmp_path / "harmed"
    torch.save({"model": Harm(mark)}, path) if ending == ".pt" else path.write_bytes(pickle.dumps(Harm(mark)))
    with pytest.raises(UserError, match=str(path)):
        load_descriptor(path)
    with pytest.raises(UserError, match=str(path)):
        Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8, weights=str(path)))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        np.load(_object_array(tmp_path))
    assert not mark.exists()


def _object_array(folder: Path) -> Path:
    np.save(folder / "a.npy", np.array([Harm(folder / "harmed")], object), allow_pickle=True)
    return folder / "a.npy"
