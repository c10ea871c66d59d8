import subprocess
from importlib.metadata import PackageNotFoundError

import pytest

from pipeline.run import provenance
from pipeline.run.provenance import code_version, versions


def test_the_versions_of_what_computes() -> None:
    assert code_version()
    assert {"Python", "torch", "timm", "numpy"} <= set(versions())


def test_a_bare_copy_of_the_code_has_an_unknown_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without .git and without the installed package every step ended in PackageNotFoundError."""

    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(provenance, "version", missing)
    assert code_version() == "unknown"
