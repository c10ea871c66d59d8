"""Which commands use the descriptor that ships when none is named."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.steps import embed


def test_a_folder_is_embedded_with_the_shipped_descriptor_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    used: list[Path] = []
    monkeypatch.setattr(embed, "embed_folder", lambda checkpoint, images, output, workers: used.append(checkpoint))
    other = tmp_path / "other.safetensors"
    for more in ((), ("--checkpoint", other)):
        assert run_command(tmp_path, "02_embed", "--images", tmp_path, "--output", tmp_path / "v.h5", *more).returncode == 0
    assert used == [SHIPPED, other]
