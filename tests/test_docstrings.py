"""Docstrings list the errors that a user can mend where callers look for them: in a block `Raises:`."""

import ast
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[1]
ROOMS = ("data", "augmentations", "models", "submissions", "matching", "pipeline")
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


def find_faults(source: str) -> list[str]:
    """Describe functions whose docstring mentions a mendable error elsewhere, or lacks one that the function raises."""
    faults = []
    for function in public_functions(ast.parse(source)):
        text, _, errors = (ast.get_docstring(function) or "").partition("Raises:")
        lacking = (raised(function) & MENDABLE) if not any(name in errors for name in MENDABLE) else set()
        if lacking or any(name in text for name in MENDABLE):
            faults.append(f"{function.name}, line {function.lineno}")
    return faults


def test_errors_stand_in_their_block() -> None:
    files = [path for room in ROOMS for path in (TOP / room).rglob("*.py")]
    assert len(files) > 100
    faults = {str(path.relative_to(TOP)): find_faults(path.read_text(encoding="utf-8")) for path in files}
    assert {path: found for path, found in faults.items() if found} == {}


def test_what_counts_as_a_fault() -> None:
    undocumented = 'def read(path):\n    """Read."""\n    raise UserError("gone")\n'
    assert find_faults(undocumented) == ["read, line 1"]
    assert find_faults('def read(path):\n    """Read; UserError when it is gone."""\n') == ["read, line 1"]
    assert (
        find_faults(
            'def read(path):\n    """Read.\n\n    Raises:\n        UserError: when gone.\n    """\n    raise UserError("")\n'
        )
        == []
    )
    assert find_faults("def make():\n    def pick():\n        raise UserError('')\n    return pick\n") == []
