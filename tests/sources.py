"""The project's source files and their syntax trees, which many tests of its structure go through."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[1]
PACKAGES = ("data", "augmentations", "models", "submissions", "matching", "pipeline", "studies")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def list_sources(*folders: str) -> tuple[Path, ...]:
    """Return the Python files below folders of the project; of its packages, if none is named."""
    files = tuple(path for folder in folders or PACKAGES for path in sorted((TOP / folder).rglob("*.py")))
    assert len(files) > 10
    return files


def list_nodes(*folders: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes of these files with the name of each file."""
    for path in list_sources(*folders):
        name = path.relative_to(TOP).as_posix()
        yield from ((name, node) for node in ast.walk(parse(path)))
