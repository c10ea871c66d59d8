"""What is installed is pinned, within the ranges that the project declares, and everything that the code imports is declared."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[1]
PACKAGES = ("augmentations", "data", "models", "pipeline", "submissions")
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINNED = re.compile(r"([A-Za-z0-9._-]+)==([0-9][^;\s]*)(\s*;.*)?")
NO_STATEMENT_IMPORTS = {
    *("onnxscript", "tensorboard"),  # torch.onnx and torch.utils.tensorboard do
    *("pillow-heif", "pillow-jxl-plugin"),  # data/formats.py does, by name, when an image needs them
}


def _pins(name: str) -> dict[str, Requirement]:
    """Package (as pip compares names) → the line that pins it; fails on a line that leaves a choice."""
    pins: dict[str, Requirement] = {}
    for line in (TOP / name).read_text(encoding="utf-8").splitlines():
        if line.startswith(("#", "-c ", "-e ")):
            continue
        assert PINNED.fullmatch(line), f"{name}: {line!r} does not name one version"
        pin = Requirement(line)
        pins[canonicalize_name(pin.name)] = pin
    return pins


def _declared(lines: Iterable[str]) -> dict[str, Requirement]:
    """Package → its line in pyproject.toml."""
    return {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines}


def _version(pin: Requirement) -> str:
    (one,) = pin.specifier
    return one.version


def _imported(*folders: str) -> Iterator[tuple[str, str]]:
    """(file, package) of every import of a module that is neither Python's nor ours."""
    distributions = packages_distributions()
    ours = {path.stem for path in (TOP / "benchmarks").iterdir()} | {path.name for path in TOP.iterdir() if path.is_dir()}
    for path in (path for folder in folders for path in sorted((TOP / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                modules = [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for module in {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - ours:
                yield from ((str(path.relative_to(TOP)), canonicalize_name(name)) for name in distributions[module])


def test_every_requirement_names_one_version_and_so_does_what_it_brings() -> None:
    direct, all_of_them = _pins("requirements.txt"), _pins("requirements/versions.txt")
    assert {package: _version(pin) for package, pin in direct.items()} == {
        package: _version(all_of_them[package]) for package in direct
    }


def test_requirements_pin_what_the_project_declares() -> None:
    declared, pins = _declared(PROJECT["dependencies"]), _pins("requirements.txt")
    assert declared.keys() == pins.keys()
    for package, pin in pins.items():
        assert declared[package].specifier.contains(_version(pin)), f"{pin} is outside {declared[package]}"
        assert str(pin.marker) == str(declared[package].marker), package


def test_versions_pin_what_development_needs() -> None:
    development, pins = _declared(PROJECT["optional-dependencies"]["dev"]), _pins("requirements/versions.txt")
    assert {"pytest", "types-pyyaml"} <= development.keys() <= pins.keys()
    for package, wanted in development.items():
        assert wanted.specifier.contains(_version(pins[package])), f"{pins[package]} is outside {wanted}"


@pytest.mark.parametrize("folders", [PACKAGES, ("benchmarks", "tests")], ids=["packages", "benchmarks and tests"])
def test_what_is_imported_is_declared(folders: tuple[str, ...]) -> None:
    declared = _declared(PROJECT["dependencies"] + ([] if folders == PACKAGES else PROJECT["optional-dependencies"]["dev"]))
    assert {(file, package) for file, package in _imported(*folders) if package not in declared} == set()


def test_nothing_is_declared_that_nobody_imports() -> None:
    declared = _declared(PROJECT["dependencies"])
    needed_here = {package for package, line in declared.items() if line.marker is None or line.marker.evaluate()}
    assert needed_here - {package for _, package in _imported(*PACKAGES)} == NO_STATEMENT_IMPORTS
