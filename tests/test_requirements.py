"""What is installed is pinned: a newer release of a dependency changes nothing until somebody tries it."""

import re
from pathlib import Path

TOP = Path(__file__).parents[1]
PINNED = re.compile(r"([A-Za-z0-9._-]+)==([0-9][^;\s]*)(\s*;.*)?")


def _pins(name: str) -> dict[str, str]:
    """Package (as pip compares names) → version; fails on a line that leaves a choice."""
    pins = {}
    for line in (TOP / name).read_text(encoding="utf-8").splitlines():
        if line.startswith(("#", "-c ", "-e ")):
            continue
        match = PINNED.fullmatch(line)
        assert match, f"{name}: {line!r} does not name one version"
        pins[_normal(match[1])] = match[2]
    return pins


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_every_requirement_names_one_version_and_so_does_what_it_brings() -> None:
    direct, all_of_them = _pins("requirements.txt"), _pins("requirements/versions.txt")
    assert direct == {package: all_of_them[package] for package in direct}
    development = re.findall(r'^  "([A-Za-z0-9-]+)', (TOP / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"pytest", "types-PyYAML"} <= set(development)
    assert {_normal(package) for package in development} <= all_of_them.keys()
