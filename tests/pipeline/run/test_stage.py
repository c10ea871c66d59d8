import argparse
import errno
from pathlib import Path

import pytest

from data.errors import UserError
from data.images import ImageSet
from pipeline.run import stage
from pipeline.run.stage import Run, clear_errors, fingerprint, open_run, require, run_step


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    return open_run(options(run=Path("runs/mine"), data=Path("photos")))


def options(run: Path | None = None, data: Path | None = None, recipe: Path | None = None) -> argparse.Namespace:
    return argparse.Namespace(run=run, data=data, recipe=recipe, force=False)


def make(run: Run, calls: list[int], parameters: object = 1, source: Path | None = None, force: bool = False) -> None:
    output = run.folder / "out.txt"

    def work() -> None:
        calls.append(1)
        output.write_text("done")

    run_step(
        run, "03_ensemble", outputs=[output], inputs={"source": source}, parameters={"k": parameters}, work=work, force=force
    )


def test_an_up_to_date_step_is_not_done_again(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []
    make(run, calls)
    make(run, calls)
    assert len(calls) == 1 and "up to date" in capsys.readouterr().out
    make(run, calls, force=True)
    assert len(calls) == 2


def test_a_stale_step_says_what_changed(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []
    source = tmp_path / "source.txt"
    source.write_text("1")
    make(run, calls, source=source)
    source.write_text("22")
    make(run, calls, source=source)
    assert "input source changed" in capsys.readouterr().out
    make(run, calls, parameters=2, source=source)
    assert "parameter k changed" in capsys.readouterr().out
    (run.folder / "out.txt").unlink()
    make(run, calls, parameters=2, source=source)
    assert "out.txt is gone" in capsys.readouterr().out
    assert len(calls) == 4


def test_a_failed_step_is_done_again(run: Run) -> None:
    def fail() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        run_step(run, "03_ensemble", outputs=[run.folder / "out.txt"], inputs={}, parameters={}, work=fail)
    calls: list[int] = []
    make(run, calls)
    assert len(calls) == 1


def test_the_latest_run_is_continued(run: Run) -> None:
    assert open_run(options()).folder == Path("runs/mine")
    assert open_run(options()).data == run.data


def test_without_a_run_the_first_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="bash run_all"):
        open_run(options())
    with pytest.raises(UserError, match="add --data DIR"):
        open_run(options(run=Path("runs/new")))
    with pytest.raises(UserError, match="is not a folder"):
        open_run(options(run=Path("runs/new"), data=Path("nowhere")))


def test_a_missing_step_is_named_with_its_command(run: Run) -> None:
    with pytest.raises(UserError, match=r"step 02_embed has not been done in .*python pipeline/02_embed.py --run"):
        require(run.folder / "embeddings", "02_embed", run)


def test_a_wrong_recipe_leaves_the_runs_own(run: Run, tmp_path: Path) -> None:
    kept = (run.folder / "recipe.yaml").read_text()
    (tmp_path / "bad.yaml").write_text("modells: {}")
    with pytest.raises(UserError):
        open_run(options(run=run.folder, recipe=tmp_path / "bad.yaml"))
    assert (run.folder / "recipe.yaml").read_text() == kept


def test_errors_become_one_message_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, clear_errors():
        raise UserError("the folder is empty")
    assert caught.value.code == 2 and capsys.readouterr().err == "error: the folder is empty\n"
    with pytest.raises(SystemExit) as caught, clear_errors():
        raise KeyboardInterrupt
    assert caught.value.code == 130


def test_fingerprints_follow_the_images(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"1")
    before = fingerprint(ImageSet(["a"], [path]))
    path.write_bytes(b"12")
    assert fingerprint(ImageSet(["a"], [path])) != before
    assert fingerprint(tmp_path / "none") is None
    assert stage.code_version()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. "), "lower `workers` in the recipe"),
        (OSError(errno.ENOSPC, "No space left on device", "events.out"), "the disk is full"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "v.part", None, "v"), "v cannot be used: Is a directory"),
    ],
)
def test_what_the_machine_lacks_is_one_message(error: Exception, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), clear_errors():
        raise error
    message = capsys.readouterr().err
    assert message.startswith("error: ") and told in message
    with pytest.raises(RuntimeError, match="a fault of ours"), clear_errors():
        raise RuntimeError("a fault of ours")
