"""What is installed is pinned and hashed, within the ranges that the project declares; what the code imports is declared."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pictures import write_zip
from tests.sources import parse

TOP = Path(__file__).parents[1]
PACKAGES = ("augmentations", "data", "matching", "models", "pipeline", "studies", "submissions")
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EVERYTHING = [
    *PROJECT["dependencies"],
    *PROJECT["optional-dependencies"]["train"],
    *PROJECT["optional-dependencies"]["interchange"],
]
PINNED = re.compile(r"([A-Za-z0-9._-]+(?:\[[a-z]+\])?)==([0-9][^;\s]*)(\s*;.*)?")
NO_STATEMENT_IMPORTS = {
    "tensorboard",  # torch.utils.tensorboard does
    "augly",  # whose fonts and emoji augmentations/edits/overlays.py takes
    *("pi-heif", "pylibjxl"),  # data/formats.py does, by name, when an image needs them
}

PINS = ("requirements/versions.txt", "requirements/versions-cluster.txt")

PEERS = {"imagededup"}  # benchmarks compare with these where they are installed


def _pins(name: str) -> dict[str, Requirement]:
    """Package (as pip compares names) → the line that pins it; fails on a line that leaves a choice."""
    pins: dict[str, Requirement] = {}
    for line in (TOP / name).read_text(encoding="utf-8").splitlines():
        if line.startswith(("#", "-c ", "-e ", "-r ")):
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


def _pinned_versions(*names: str) -> dict[str, str]:
    return {package: _version(pin) for name in names for package, pin in _pins(name).items()}


@cache
def _imported(*folders: str) -> set[tuple[str, str]]:
    """(file, package) of every import of a module that is neither Python's nor ours."""
    distributions, imported = packages_distributions(), set[tuple[str, str]]()
    ours = {path.stem for path in (TOP / "benchmarks").iterdir()} | {path.name for path in TOP.iterdir() if path.is_dir()}
    for path in (path for folder in folders for path in sorted((TOP / folder).rglob("*.py"))):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                modules = [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for module in {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - ours - PEERS:
                found = distributions.get(module, [module])  # an extra that is not installed has its module's name
                imported |= {(str(path.relative_to(TOP)), canonicalize_name(name)) for name in found}
    return imported


def test_every_requirement_names_one_version_within_what_the_project_declares() -> None:
    direct, all_of_them = _pins("requirements.txt"), _pins("requirements/versions.txt")
    assert {package: _version(pin) for package, pin in direct.items()} == {
        package: _version(all_of_them[package]) for package in direct
    }
    declared, pins = _declared(EVERYTHING), _pins("requirements.txt")
    assert declared.keys() == pins.keys()
    for package, pin in pins.items():
        assert declared[package].specifier.contains(_version(pin)), f"{pin} is outside {declared[package]}"
        assert str(pin.marker) == str(declared[package].marker), package
    development, pins = _declared(PROJECT["optional-dependencies"]["dev"]), _pins("requirements/versions.txt")
    assert {"pytest", "types-pyyaml"} <= development.keys() <= pins.keys()
    for package, wanted in development.items():
        assert wanted.specifier.contains(_version(pins[package])), f"{pins[package]} is outside {wanted}"


def test_the_cluster_is_an_extra_whose_packages_have_one_version_each() -> None:
    extras, pins = PROJECT["optional-dependencies"], _pins("requirements-cluster.txt")
    declared = _declared(extras["cluster"] + extras["cluster-tests"] + extras["pdq"])
    assert declared.keys() == pins.keys()
    for package, pin in pins.items():
        assert declared[package].specifier.contains(_version(pin)), f"{pin} is outside {declared[package]}"
    versions = _pinned_versions(*PINS)
    assert {package: _version(pin) for package, pin in pins.items()} == {package: versions[package] for package in pins}
    assert not _pins("requirements/versions-cluster.txt").keys() & _pins("requirements/versions.txt").keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["requirements.txt", "requirements-cluster.txt"])
def test_requirements_resolve_from_nothing_to_what_is_pinned(tmp_path: Path, name: str) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--retries", "1"]
    done = subprocess.run([*command, "--report", report, "-r", name], cwd=TOP, capture_output=True, text=True, check=False)
    if "(from versions: none)" in done.stderr:
        pytest.skip("no package index answers")
    assert done.returncode == 0, done.stderr
    packages = [each["metadata"] for each in json.loads(report.read_text(encoding="utf-8"))["install"]]
    found = {canonicalize_name(package["name"]): package["version"] for package in packages}
    assert found.pop(canonicalize_name(PROJECT["name"])) == PROJECT["version"]
    versions = _pinned_versions(*PINS)
    assert found == {package: versions.get(package) for package in found}
    assert _pins(name).keys() - found.keys() <= {"faiss-cpu", "faiss-gpu"}  # one of them, by machine


@pytest.mark.parametrize("folders", [PACKAGES, ("benchmarks", "tests")], ids=["packages", "benchmarks and tests"])
def test_what_is_imported_is_declared(folders: tuple[str, ...]) -> None:
    extras = PROJECT["optional-dependencies"]
    development = [] if folders == PACKAGES else extras["dev"] + extras["cluster-tests"]
    declared = _declared(EVERYTHING + extras["cluster"] + extras["threatexchange"] + extras["pdq"] + development)
    assert {(file, package) for file, package in _imported(*folders) if package not in declared} == set()


def test_nothing_is_declared_that_nobody_imports() -> None:
    declared = _declared(EVERYTHING)
    needed_here = {package for package, line in declared.items() if line.marker is None or line.marker.evaluate()}
    assert needed_here - {package for _, package in _imported(*PACKAGES)} == NO_STATEMENT_IMPORTS


@pytest.mark.parametrize("python", ["311", "312", "313", "314"])
@pytest.mark.parametrize(("which", "pins"), [("", PINS[0]), ("-cluster", PINS[1])])
def test_locks_hold_the_pinned_versions_with_hashes_and_name_no_place(python: str, which: str, pins: str) -> None:
    text = (TOP / "requirements" / f"py{python}{which}.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S+)==(\S+) \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)
    assert len(entries) == text.count("==") and len(text.splitlines()) == 1 + len(entries) + text.count("--hash=")
    locked = {canonicalize_name(name): version for name, version, _ in entries}
    versions = _pinned_versions(pins)
    assert {package: versions.get(package) for package in locked} == locked
    assert versions.keys() - locked.keys() <= {"faiss-cpu"}  # of other machines than the locks are for


def test_licences_of_all_that_is_pinned_are_listed_and_none_is_the_gpl() -> None:
    """NVIDIA's libraries, which torch brings, may not be passed on together with such code."""
    page = (TOP / "requirements" / "licences.md").read_text("utf-8")
    listed = re.findall(r"^- (\S+) (\d\S*): (.+)$", page, re.MULTILINE)
    assert {canonicalize_name(name): version for name, version, _ in listed} == _pinned_versions(*PINS)
    assert "## Unknown" not in page
    assert not [name for name, _, licence in listed if licence in ("not installed", "not declared")]
    assert "## GPL, copyleft" not in (TOP / "requirements" / "licences.md").read_text("utf-8")


def affect(**affected: object) -> bytes:
    """The record of a vulnerability of NumPy."""
    record = {"id": "X-1", "summary": "bad", "affected": [{"package": {"name": "NumPy"}, **affected}]}
    return json.dumps(record).encode()


def lie_between(**events: str) -> bytes:
    return affect(ranges=[{"type": "ECOSYSTEM", "events": [{name: version} for name, version in events.items()]}])


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (affect(versions=["2.4.5", "2.4.6"]), 1),
        (affect(versions=["2.4.5"]), 0),
        (lie_between(introduced="0", fixed="2.4.7"), 1),
        (lie_between(introduced="0", fixed="2.4.6"), 0),
        (lie_between(introduced="2", last_affected="2.4.6"), 1),
        (affect(ranges=[{"type": "GIT", "events": [{"introduced": "0"}, {"fixed": "abcdef"}]}]), 0),
        (b"[1", 2),
        ("no archive", 2),
        (None, 2),  # no file
    ],
)
def test_known_vulnerabilities_are_found_in_an_offline_copy_or_nothing_was_looked_up(
    tmp_path: Path, record: bytes | str | None, code: int
) -> None:
    (tmp_path / "lock").write_text("numpy==2.4.6 \\\n    --hash=sha256:00\n")
    if isinstance(record, bytes):
        write_zip(tmp_path / "all.zip", {"X-1.json": record})
    elif record is not None:
        (tmp_path / "all.zip").write_text(record)
    command = [sys.executable, str(TOP / "requirements" / "audit.py"), "--lock", str(tmp_path / "lock")]
    done = subprocess.run([*command, "--osv", str(tmp_path / "all.zip")], capture_output=True, text=True, check=False)
    assert done.returncode == code and not done.stderr
    assert ("numpy 2.4.6: X-1 bad" in done.stdout) == (code == 1) and done.stdout.startswith("NOT RUN") == (code == 2)
