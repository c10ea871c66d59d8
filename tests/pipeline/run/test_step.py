import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.locks import SESSION_VARIABLE
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.step import Product, Step, make_product
from image_copies.pipeline.steps import definitions

STEP = Step("03_ensemble", lambda run: [])


def make(run: Run, work: Callable[[], None], parameters: object = 1, source: Path | None = None, force: bool = False) -> None:
    product = Product(
        inputs=lambda: {"source": source}, outputs=[run.folder / "out.txt"], parameters={"k": parameters}, work=work
    )
    make_product(run, STEP, product, force)


class Counted:
    """Work that counts how often it is done."""

    def __init__(self, run: Run) -> None:
        self.output, self.calls = run.folder / "out.txt", 0

    def __call__(self) -> None:
        self.calls += 1
        self.output.write_text("done")


def test_an_up_to_date_step_is_not_done_again(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    work = Counted(run)
    make(run, work)
    make(run, work)
    assert work.calls == 1 and "up to date" in capsys.readouterr().out
    make(run, work, force=True)
    assert work.calls == 2


def test_a_stale_step_says_what_changed(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work, source = Counted(run), tmp_path / "source.txt"
    source.write_text("1")
    make(run, work, source=source)
    source.write_text("22")
    make(run, work, source=source)
    assert "input source changed" in capsys.readouterr().out
    make(run, work, parameters=2, source=source)
    assert "parameter k changed" in capsys.readouterr().out
    work.output.unlink()
    make(run, work, parameters=2, source=source)
    assert "out.txt is gone" in capsys.readouterr().out
    assert work.calls == 4


def test_a_failed_step_is_done_again(run: Run) -> None:
    def fail() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        make(run, fail)
    work = Counted(run)
    make(run, work)
    assert work.calls == 1


def test_work_that_writes_nothing_is_an_error(run: Run) -> None:
    with pytest.raises(RuntimeError, match=r"03_ensemble did not write .*out.txt"):
        make(run, lambda: None)


def test_force_removes_unfinished_work_first(run: Run) -> None:
    started, work = run.folder / "started", Counted(run)
    product = Product(inputs=dict, outputs=[work.output], parameters={}, work=work, unfinished=[started])
    make_product(run, STEP, product)
    started.mkdir()
    make_product(run, STEP, product)
    assert started.is_dir()
    make_product(run, STEP, product, force=True)
    assert not started.exists()


def test_a_step_is_not_done_while_another_process_works_in_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Counted(run)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        monkeypatch.setenv(SESSION_VARIABLE, str(other.pid))
        make(run, work)
        monkeypatch.delenv(SESSION_VARIABLE)
        make(run, work)  # what is up to date harms nobody
        with pytest.raises(UserError, match=rf"mine is in use \(03_ensemble, process {other.pid}"):
            make(run, work, parameters=2)
        other.communicate(b"\n")
    assert work.calls == 1
    make(run, work, parameters=2)
    assert work.calls == 2


@pytest.mark.parametrize("left", ["", "do"])
def test_an_output_torn_by_a_power_cut_is_made_again(run: Run, capsys: pytest.CaptureFixture[str], left: str) -> None:
    work = Counted(run)
    make(run, work)
    work.output.write_text(left)
    make(run, work)
    assert work.calls == 2 and "out.txt is incomplete" in capsys.readouterr().out and work.output.read_text() == "done"


@pytest.mark.parametrize("jump", [-20, 20])
def test_a_clock_that_jumps_changes_nothing(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    """Files from the future or the past are up to date, and what is made again is so for its size or another time."""
    work, source, year = Counted(run), tmp_path / "source.txt", 365 * 86_400
    source.write_text("1")
    now = time.time()
    os.utime(source, (now + jump * year,) * 2)
    make(run, work, source=source)
    for path in (run.folder, *run.folder.rglob("*")):
        os.utime(path, (now - jump * year,) * 2)
    monkeypatch.setattr(time, "time", lambda: now - jump * year)
    make(run, work, source=source)
    assert work.calls == 1 and "up to date" in capsys.readouterr().out
    os.utime(source, (now, now))
    make(run, work, source=source)
    assert work.calls == 2 and "input source changed" in capsys.readouterr().out


def test_no_budget_follows_the_clock() -> None:
    """What lasts is measured with clocks that only go forward."""
    rooms = [
        Path(__file__).parents[3] / room for room in ("data", "augmentations", "models", "submissions", "matching", "pipeline")
    ]
    assert not [path for room in rooms for path in room.rglob("*.py") if "time.time(" in path.read_text(encoding="utf-8")]


def test_a_step_begins_with_what_it_and_all_later_ones_take(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Step("03_ensemble", lambda run: []), Step("04_normalize", lambda run: [])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(definitions, "STEPS", (first, second))
        run.paths.time_left.write_text('{"03_ensemble": 90, "04_normalize": 45}')
        definitions.run_step(run, first)
        run.paths.time_left.write_text('{"03_ensemble": 0, "04_normalize": 45}')
        definitions.run_step(run, first)
        definitions.run_step(run, second)
    said = ["step 1 of 2: 03_ensemble, about 1.5 min, and 45 s for the steps after it", "step 1 of 2: 03_ensemble"]
    assert capsys.readouterr().out.splitlines() == [*said, "step 2 of 2: 04_normalize, about 45 s"]
