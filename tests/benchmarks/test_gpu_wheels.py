"""The wheels for a machine without a network: one that lacks its code, or whose needs nobody brings, is found beforehand."""

import zipfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))


def _write_wheel(folder: Path, name: str, version: str, requires: list[str], size: int = 20_000) -> None:
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        about = "".join(f"Requires-Dist: {line}\n" for line in requires)
        file.writestr(f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{about}")
        file.writestr(f"{name}/code.py", "#" * size)


def test_a_set_that_is_whole_has_no_faults(tmp_path: Path) -> None:
    from gpu_wheels import find_faults

    only_elsewhere = ["colorama; sys_platform == 'win32'", "tomli; python_version < '3.11'", "mypy; extra == 'test'"]
    _write_wheel(tmp_path, "pydantic", "2.1", ["pydantic-core==2.5.0", "Typing_Extensions>=4", *only_elsewhere])
    _write_wheel(tmp_path, "pydantic_core", "2.5.0", [])
    _write_wheel(tmp_path, "augly", "1.0.0", ["python-magic (>=0.4.22)"])
    assert find_faults(tmp_path, ["typing-extensions"], ["augly"]) == []


def test_placeholders_and_lacks_and_other_versions_are_faults(tmp_path: Path) -> None:
    from gpu_wheels import find_faults

    _write_wheel(tmp_path, "pydantic", "2.1", ["pydantic-core==2.5.0", "typing-extensions>=4", "annotated-types"])
    _write_wheel(tmp_path, "pydantic_core", "0.0.1", [], size=100)
    placeholder, version, lacking = find_faults(tmp_path, ["typing-extensions"])
    assert placeholder.startswith("pydantic_core-0.0.1") and placeholder.endswith("bytes")
    assert "requires pydantic-core==2.5.0, not 0.0.1" in version
    assert lacking.endswith("requires annotated-types")


def test_what_is_downloaded_is_of_the_versions_that_are_installed_here() -> None:
    from gpu_wheels import WHEELS

    pinned = (Path(__file__).parents[2] / "requirements" / "versions.txt").read_text().lower().replace("_", "-").split()
    assert [wheel for wheel in WHEELS if wheel not in pinned] == []
