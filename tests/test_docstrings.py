"""Docstrings say what signatures cannot: errors that a user can mend, in a block `Raises:`, and the shapes of arrays."""

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


def find_unknown_shapes(source: str) -> list[str]:
    """Describe a module's public functions of arrays whose docstrings give no shape, such as [n, d]."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            annotations = [argument.annotation for argument in node.args.args + node.args.kwonlyargs] + [node.returns]
            named = {
                part.id for annotation in annotations if annotation for part in ast.walk(annotation) if isinstance(part, ast.Name)
            }
            text = ast.get_docstring(node) or ""
            if named & {"NDArray", "Tensor"} and "dict" not in named and "[" not in text and "any shape" not in text:
                found.append(f"{node.name}, line {node.lineno}")
    return found


def test_arrays_have_shapes() -> None:
    files = [path for room in ROOMS for path in (TOP / room).rglob("*.py")]
    unknown = {str(path.relative_to(TOP)): find_unknown_shapes(path.read_text(encoding="utf-8")) for path in files}
    assert {path: found for path, found in unknown.items() if found} == {}
    assert find_unknown_shapes('def norms(rows: Tensor) -> float:\n    """Return their norms."""\n') == ["norms, line 1"]
    assert find_unknown_shapes('def norms(rows: Tensor) -> float:\n    """Return the norms of rows [n, d]."""\n') == []


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
