"""The packages are imported by one name, image_copies: a module with two names would exist twice, with two UserErrors."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PACKAGES = {path.parent.name for path in TOP.glob("*/__init__.py")} - {"image_copies"}
ROOMS = sorted({*PACKAGES, "benchmarks", "requirements", "studies", "tests"})
PROGRAM = re.compile(rf"^[ \t]*(?:from|import) ({'|'.join(sorted(PACKAGES))})\b(?:\.\w+)*(?: import\b|[ \t]*$)", re.MULTILINE)


def find_bare_names(source: str, modules: set[tuple[str, ...]]) -> Iterator[str]:
    """Yield what imports a package by its bare name: statements, programs in strings, strings that begin with a module's name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in PACKAGES)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module and node.module.partition(".")[0] in PACKAGES:
            yield node.module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (found[0].strip() for found in PROGRAM.finditer(node.value))
            if tuple(node.value.split(".")[:2]) in modules:
                yield node.value


def list_modules() -> set[tuple[str, ...]]:
    """Return (package, name) of the modules and packages right below the project's packages."""
    inside = [path for package in PACKAGES for path in (TOP / package).iterdir()]
    return {(path.parent.name, path.stem) for path in inside if path.suffix == ".py" or (path / "__init__.py").is_file()}


def test_nothing_imports_a_package_by_its_bare_name() -> None:
    modules, files = list_modules(), [path for room in ROOMS for path in (TOP / room).rglob("*.py")]
    assert len(files) > 400 and {("data", "errors"), ("pipeline", "run")} <= modules
    found = {str(path.relative_to(TOP)): [*find_bare_names(path.read_text(encoding="utf-8"), modules)] for path in files}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import {}",
        "import json, {}.errors",
        "def read():\n    from {} import errors",
        "from {}.errors import UserError",
        "patch('{}.errors.UserError', None)",
        "patch(f'{}.errors.{{name}}', None)",
        "program = '''\nimport os\nfrom {}.errors import UserError\n'''",
    ],
)
def test_a_bare_name_would_be_found(source: str) -> None:
    assert len([*find_bare_names(source.format("data"), {("data", "errors")})]) == 1
    assert not [*find_bare_names(source.format("image_copies.data"), {("data", "errors")})]


def test_every_package_is_installed() -> None:
    """setup.py names the folders; tests/end_to_end/test_installed.py looks at what an installation has of them."""
    assert f"FOLDERS = {tuple(sorted({*PACKAGES, 'recipes'}))!r}".replace("'", '"') in (TOP / "setup.py").read_text(
        encoding="utf-8"
    )


def test_a_script_runs_the_code_beside_it(tmp_path: Path) -> None:
    """Here another checkout is installed: the one that is tested."""
    for folder in ("pipeline", "image_copies"):
        (tmp_path / folder).mkdir()
    shutil.copy(TOP / "pipeline" / "image_copies.py", tmp_path / "pipeline")
    (tmp_path / "image_copies" / "__init__.py").write_text("beside = True")
    (tmp_path / "pipeline" / "show.py").write_text("from image_copies import beside; print(beside)")
    done = subprocess.run([sys.executable, tmp_path / "pipeline" / "show.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
