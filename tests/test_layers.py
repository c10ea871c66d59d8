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


def test_no_folders_of_models_import_each_other_in_a_circle() -> None:
    """Its own modules, device and distributed, are a folder, too: the lowest."""
    known, graph = modules(), dict[str, set[str]]()
    for module, path in known.items():
        folder = module if path.name == "__init__.py" else module.rpartition(".")[0]
        names = {name if name in known else name.rpartition(".")[0] for name in imported(path)}
        inner = {name if known[name].name == "__init__.py" else name.rpartition(".")[0] for name in names if name in known}
        if folder.startswith("models"):
            graph.setdefault(folder, set()).update(other for other in inner - {folder} if other.startswith("models"))
    assert len(graph) > 4
    list(TopologicalSorter(graph).static_order())
