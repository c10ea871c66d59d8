"""What all of the code keeps to: layers, one import name, docstrings and no unpickling."""

import ast
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data import kinds
from image_copies.data.errors import UserError
from image_copies.data.kinds import load_kind
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from tests.sources import TOP, list_nodes, list_sources, parse

PREFIX = "image_copies."
BELOW = {
    "data": set[str](),
    "augmentations": {"data"},
    "models": {"augmentations", "data"},
    "submissions": {"augmentations", "data"},
    "matching": {"augmentations", "data", "models", "submissions"},
    "pipeline": {"augmentations", "data", "matching", "models", "submissions"},
    "studies": {"augmentations", "data", "matching", "models", "pipeline", "submissions"},
}


def imported(path: Path) -> Iterator[str]:
    """Yield the modules of the project that a file imports, inside functions too."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = (PREFIX.rstrip("."), *path.relative_to(TOP).parts[: -node.level]) if node.level else ()
            names = [".".join(filter(None, (*above, node.module, alias.name))) for alias in node.names]
        else:
            continue
        # a module with two names would exist twice, with two UserErrors
        assert not BELOW.keys() & {name.split(".")[0] for name in names}, f"{path} imports a package by its bare name"
        yield from (name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))


def modules() -> dict[str, set[str]]:
    """Return what each module of the packages imports, as names of modules."""
    named = {".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__"): path for path in list_sources()}
    return {
        module: {name if name in named else name.rpartition(".")[0] for name in imported(path)} for module, path in named.items()
    }


def test_no_package_imports_one_above_it() -> None:
    upward = {
        f"{module} imports {name}"
        for module, names in modules().items()
        for name in names
        if (package := module.split(".")[0]) != (other := name.split(".")[0]) and other not in BELOW[package]
    }
    assert upward == set() and len(modules()) > 100


def test_no_modules_and_no_folders_of_a_package_import_each_other_in_a_circle() -> None:
    """A module that lies in no folder of its package stands for itself."""
    graph, rooms = modules(), dict[str, set[str]]()
    list(TopologicalSorter(graph).static_order())  # raises CycleError and names the circle

    def room_of(module: str) -> str:
        return ".".join(module.split(".")[:2])

    for module, names in graph.items():
        if module.startswith(("models", "matching", "pipeline")):
            rooms.setdefault(room_of(module), set()).update({room_of(name) for name in names} - {room_of(module)})
    assert len(rooms) > 30
    list(TopologicalSorter(rooms).static_order())


def test_what_is_known_by_name_is_where_the_tables_say() -> None:
    tables = [value for name, value in vars(kinds).items() if name.isupper()]
    assert len(tables) > 4 and all(load_kind(table, name) is not None for table in tables for name in table)


PACKAGES = {path.parent.name for path in TOP.glob("*/__init__.py")} - {"image_copies"}


def test_every_package_is_installed() -> None:
    """setup.py names the folders; tests/end_to_end/test_installed.py looks at what an installation has of them."""
    named = f"FOLDERS = {tuple(sorted({*PACKAGES, 'recipes'}))!r}".replace("'", '"')
    assert named in (TOP / "setup.py").read_text(encoding="utf-8")


def test_a_script_runs_the_code_beside_it(tmp_path: Path) -> None:
    """Here another checkout is installed: the one that is tested."""
    for folder in ("pipeline", "image_copies"):
        (tmp_path / folder).mkdir()
    shutil.copy(TOP / "pipeline" / "image_copies.py", tmp_path / "pipeline")
    (tmp_path / "image_copies" / "__init__.py").write_text("beside = True")
    (tmp_path / "pipeline" / "show.py").write_text("from image_copies import beside; print(beside)")
    done = subprocess.run([sys.executable, tmp_path / "pipeline" / "show.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


MENDABLE = {"UserError", "ImageError"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(tree: ast.Module) -> Iterator[Function]:
    """Yield the public functions of a module and the public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (inner for inner in node.body if isinstance(inner, Function) and not inner.name.startswith("_"))


def raised(node: ast.AST) -> set[str]:
    """Return the names of errors raised directly, neither in inner functions nor where `report_errors` prints them."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return {ast.unparse(node.exc.func)}
    if isinstance(node, ast.With) and any("report_errors" in ast.unparse(item) for item in node.items):
        return set()
    inner = (child for child in ast.iter_child_nodes(node) if not isinstance(child, Function | ast.ClassDef | ast.Lambda))
    return set().union(*map(raised, inner))


def find_faults(tree: ast.Module) -> list[str]:
    """Describe functions whose docstring mentions a mendable error elsewhere, or lacks one that the function raises."""
    faults = []
    for function in public_functions(tree):
        text, _, errors = (ast.get_docstring(function) or "").partition("Raises:")
        lacking = (raised(function) & MENDABLE) if not any(name in errors for name in MENDABLE) else set()
        if lacking or any(name in text for name in MENDABLE):
            faults.append(f"{function.name}, line {function.lineno}")
    return faults


def find_unknown_shapes(tree: ast.Module) -> list[str]:
    """Describe a module's public functions of arrays whose docstrings give no shape, such as [n, d]."""
    found = []
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            annotations = [argument.annotation for argument in node.args.args + node.args.kwonlyargs] + [node.returns]
            parts = [part for annotation in annotations if annotation for part in ast.walk(annotation)]
            named = {part.id for part in parts if isinstance(part, ast.Name)}
            text = ast.get_docstring(node) or ""
            if named & {"NDArray", "Tensor"} and "dict" not in named and "[" not in text and "any shape" not in text:
                found.append(f"{node.name}, line {node.lineno}")
    return found


def test_docstrings_have_errors_in_their_block_and_the_shapes_of_arrays() -> None:
    for find in (find_faults, find_unknown_shapes):
        found = {str(path.relative_to(TOP)): find(parse(path)) for path in list_sources()}
        assert {path: faults for path, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ('def norms(rows: Tensor) -> float:\n    """Return their norms."""\n', 1),
        ('def norms(rows: Tensor) -> float:\n    """Return the norms of rows [n, d]."""\n', 0),
        ('def read(path):\n    """Read."""\n    raise UserError("gone")\n', 1),
        ('def read(path):\n    """Read; UserError when it is gone."""\n', 1),
        ('def read(path):\n    """Read.\n\n    Raises:\n        UserError: when gone.\n    """\n    raise UserError("")\n', 0),
        ("def make():\n    def pick():\n        raise UserError('')\n    return pick\n", 0),
    ],
)
def test_what_counts_as_a_fault_of_a_docstring(source: str, faults: int) -> None:
    assert len(find_faults(ast.parse(source)) + find_unknown_shapes(ast.parse(source))) == faults


def test_no_code_lets_a_file_say_what_runs() -> None:
    """ruff refuses pickle, eval and loaders of YAML that build objects; these could unpickle, and are asked not to."""
    asked = {"torch.load": ("weights_only", "True"), "np.load": ("allow_pickle", "False")}
    found = []
    for file, node in list_nodes(*sorted(PACKAGES), "benchmarks", "requirements"):
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in asked:
            keyword, value = asked[name]
            given = {each.arg: ast.unparse(each.value) for each in node.keywords}
            default = "False" if name == "np.load" else None
            if given.get(keyword, default) != value:
                found.append((file, name))
    assert found == []


class Harm:
    """What a malicious pickle does when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("ending", [".pth", ".pt", ".safetensors"])
def test_a_malicious_pickle_is_refused_with_a_message(tmp_path: Path, ending: str) -> None:
    path, mark = tmp_path / f"weights{ending}", tmp_path / "harmed"
    torch.save({"model": Harm(mark)}, path) if ending == ".pt" else path.write_bytes(pickle.dumps(Harm(mark)))
    np.save(tmp_path / "a.npy", np.array([Harm(mark)], object), allow_pickle=True)
    with pytest.raises(UserError, match=str(path)):
        load_descriptor(path)
    with pytest.raises(UserError, match=str(path)):
        Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8, weights=str(path)))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        np.load(tmp_path / "a.npy")
    assert not mark.exists()
