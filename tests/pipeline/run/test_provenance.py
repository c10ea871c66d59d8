import shutil
import subprocess
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.files import digest_file
from image_copies.data.images import ImageSet
from image_copies.pipeline.run import step
from image_copies.pipeline.run.recipe import Recipe
from image_copies.pipeline.run.step import code_version, fingerprint_images, versions


def test_the_versions_of_what_computes() -> None:
    assert code_version()
    assert {"Python", "torch", "timm", "numpy"} <= set(versions())


def test_a_bare_copy_of_the_code_has_an_unknown_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without .git, pyproject.toml and the installed package every step ended in PackageNotFoundError."""

    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    def missing() -> str:
        raise PackageNotFoundError("image-copy-detection")

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(step, "find_version", missing)
    assert code_version() == "unknown"


def test_an_environment_within_another_checkout_does_not_take_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of the installed package named the commit of the folder that the environment happened to lie in."""
    installed = tmp_path / "environment" / "image_copies" / "step.py"
    installed.parent.mkdir(parents=True)
    shutil.copy(step.__file__, installed)
    author = ("-c", "user.name=A", "-c", "user.email=a@b")
    for command in (("init", "--quiet"), (*author, "commit", "--quiet", "--allow-empty", "--message", "theirs")):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    monkeypatch.setattr(step, "__file__", str(installed))
    monkeypatch.setattr(step, "find_version", lambda: "1.2.3")
    assert code_version() == "1.2.3"


def test_a_recipes_fingerprint_follows_all_but_the_workers() -> None:
    def fingerprint(workers: int, epochs: int = 2, **more: Any) -> str:
        stages = [{"intensity": 0.5, "image_size": 32, "batch_size": 8, "epochs": epochs}]
        one = {"descriptor": {"backbone": "test_efficientnet"}, "workers": workers, "stages": stages}
        return Recipe.model_validate({"models": {"one": one}, "embedding": {"workers": workers}} | more).fingerprint()

    same = fingerprint(0)
    assert fingerprint(3) == same
    assert len({same, fingerprint(0, epochs=3), fingerprint(0, seed=1), fingerprint(0, ensemble={"dimensions": [8]})}) == 4


def test_fingerprints_of_data_follow_content_and_not_place(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jpg").write_bytes(b"123")
    one, other = (ImageSet(["a"], [tmp_path / folder / "a.jpg"]) for folder in ("one", "other"))
    assert fingerprint_images(one) == fingerprint_images(other)
    assert digest_file(one.paths[0]) == digest_file(other.paths[0])
    other.paths[0].write_bytes(b"1234")
    assert fingerprint_images(one) != fingerprint_images(other)
    assert digest_file(one.paths[0]) != digest_file(other.paths[0])
