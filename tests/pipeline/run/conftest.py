from pathlib import Path

import pytest

from image_copies.pipeline.run.run import Run, open_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    return open_run(Path("runs/mine"), data=Path("photos"))
