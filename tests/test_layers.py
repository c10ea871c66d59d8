"""Imports go one way between the packages, and no module of a package imports itself in a circle."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

TOP, PREFIX = Path(__file__).parents[1], "image_copies."
BELOW = {
    "data": set[str](),
    "augmentations": {"data"},
    "models": {"augmentations", "data"},
    "submissions": {"augmentations", "data"},
    "matching": {"augmentations", "data", "models", "submissions"},
    "pipeline": {"augmentations", "data", "matching", "models", "submissions"},
}


def imported(path: Path) -> Iterator[str]:
    """Yield the modules of the project that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))


def modules() -> dict[str, Path]:
    """Return the files of all packages by their modules' names."""
    files = [path for package in BELOW for path in (TOP / package).rglob("*.py")]
    assert len(files) > 100
    return {".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


def test_no_package_imports_one_above_it() -> None:
    upward = {
        f"{module} imports {name}"
        for module, path in modules().items()
        for name in imported(path)
        if (package := module.split(".")[0]) != (other := name.split(".")[0]) and other not in BELOW[package]
    }
    assert upward == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {
        module: {name if name in known else name.rpartition(".")[0] for name in imported(path)} for module, path in known.items()
    }
    list(TopologicalSorter(graph).static_order())  # raises CycleError and names the circle


def test_no_folders_of_a_package_import_each_other_in_a_circle() -> None:
    """A module that lies in no folder of its package stands for itself."""
    known, graph = modules(), dict[str, set[str]]()

    def room_of(module: str) -> str:
        return ".".join(module.split(".")[:2])

    for module, path in known.items():
        if module.startswith(("models", "matching", "pipeline")):
            names = {name if name in known else name.rpartition(".")[0] for name in imported(path)}
            graph.setdefault(room_of(module), set()).update({room_of(name) for name in names} - {room_of(module)})
    assert len(graph) > 30
    list(TopologicalSorter(graph).static_order())
