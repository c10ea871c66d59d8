import errno
import json
import os
import runpy
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

import image_copies
from image_copies.data.errors import UserError
from image_copies.pipeline.match import main
from image_copies.pipeline.run.cli import CommandParser, make_step_parser, report_errors
from tests.runs import RunCommand

PIPELINE = Path(__file__).parents[3] / "pipeline"


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("match", ["remove", "", "--index", "kept"]),
        ("match", ["remove", "a", "", "--index", "kept"]),
        ("match", ["--queries", "pictures", "--output", ""]),
        ("make_data", ["--output", ""]),
        ("export", ["--output", ""]),
        ("00_augment", ["--run", ""]),
        ("06_score", ["--submission", ""]),
    ],
)
def test_an_empty_path_is_refused(
    script: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`remove "$UNSET"` took the current folder and emptied the index."""
    monkeypatch.chdir(tmp_path)
    path = next(PIPELINE.rglob(f"{script}.py"))
    monkeypatch.setattr("sys.argv", [str(path), *arguments])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(path), run_name="__main__")
    assert caught.value.code == 2 and "the path is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--quries a", "there is no option --quries. Did you mean --queries? See "),
        ("a --applly=move", "there is no option --applly. Did you mean --apply? See "),
        ("--versoin", "there is no option --versoin. Did you mean --version? See "),
        ("a --xyzzy", "there is no option --xyzzy. See "),
        ("decide a.jpg b.jpg perhaps", "argument word: invalid choice: 'perhaps' (choose from "),
        ("--apply", "argument --apply: expected one argument. See "),
    ],
)
def test_a_line_that_is_not_understood_is_answered_in_one(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    said = capsys.readouterr().err
    assert (
        caught.value.code == 2 and said.startswith(f"error: {message}") and said.endswith(" --help\n") and said.count("\n") == 1
    )


def test_a_misspelt_option_is_named_before_what_is_missing_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    parser = CommandParser("evaluate.py")
    parser.add_argument("--checkpoint", required=True)
    with pytest.raises(SystemExit):
        parser.parse_args(["--chekpoint", "a"])
    assert "Did you mean --checkpoint?" in capsys.readouterr().err
    assert parser.parse_args(["--check", "a"]).checkpoint == "a", "the beginning of an option is enough"


@pytest.mark.parametrize("option", ["--queries", "--unrelated", "--output", "--run"])
def test_a_password_in_a_url_is_refused_and_not_repeated(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([option, "s3://KEY:SECRET@bucket/photos"])
    said = capsys.readouterr().err
    assert "a s3:// URL with a password is refused" in said and "SECRET@" not in said and "KEY:" not in said


def test_a_run_on_an_object_store_is_refused_with_the_way_around(tmp_path: Path, run_command: RunCommand) -> None:
    done = run_command(tmp_path, "02_embed", "--run", "s3://bucket/runs/isc")
    assert done.returncode == 2 and "needs a file or folder of this machine: copy it with the store's own tool" in done.stderr
    command = ["bash", str(PIPELINE.parent / "run_all.sh"), "--run", "s3://bucket/runs/isc"]
    shell = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert shell.returncode == 2 and "--run names a place on an object store: name a folder of this machine" in shell.stderr
    assert not list(tmp_path.iterdir())


def test_path_options_refuse_an_empty_one_and_help_names_no_default_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [path for path in PIPELINE.rglob("*.py") if "type=Path" in path.read_text(encoding="utf-8")]
    make_step_parser(None).print_help()
    assert "None" not in capsys.readouterr().out


def test_errors_become_one_message_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, report_errors():
        raise UserError("the folder is empty")
    assert caught.value.code == 2 and capsys.readouterr().err == "error: the folder is empty\n"
    with pytest.raises(SystemExit) as caught, report_errors():
        raise KeyboardInterrupt
    assert caught.value.code == 130


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. "), "lower `workers` in the recipe"),
        (BrokenProcessPool("A process in the process pool was terminated abruptly"), "usually for lack of memory"),
        (OSError(errno.ENOSPC, "No space left on device", "events.out"), "the disk is full"),
        (OSError(errno.EROFS, "Read-only file system", "runs/a"), "runs/a cannot be used: Read-only file system"),
        (RuntimeError("Unable to create file (errno = 30, Read-only file system)"), "its folder is read-only"),
        (PermissionError(errno.EACCES, "Permission denied", "runs/a"), "runs/a cannot be used: Permission denied"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "v.part", None, "v"), "v cannot be used: Is a directory"),
    ],
)
def test_what_the_machine_lacks_is_one_message(error: Exception, reported: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), report_errors():
        raise error
    message = capsys.readouterr().err
    assert message.startswith("error: ") and reported in message
    with pytest.raises(RuntimeError, match="a fault of ours"), report_errors():
        raise RuntimeError("a fault of ours")


PRINTED = """
import importlib, os, runpy, sys
from contextlib import suppress
from pathlib import Path
for name in ("match", "02_embed", "06_score"):
    importlib.import_module(f"image_copies.pipeline.{name}")
assert "tqdm" not in sys.modules, "it reads whether to show bars when it is imported, which commands set"
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.steps.score_table import print_scores
encoding, errors = sys.stdout.encoding, sys.stdout.errors
for script in sys.argv[1:]:
    sys.stdout.reconfigure(encoding=encoding, errors=errors)
    sys.argv = [script, "--help"]
    with suppress(SystemExit):
        runpy.run_path(script, run_name="__main__")
sys.stdout.reconfigure(encoding=encoding, errors=errors)
with report_errors():
    print_scores(Path("scores.json"))
    print("\\u03b2", os.fsdecode(b"\\xff.jpg"))
"""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_anything_can_be_printed_anywhere(tmp_path: Path, locale: str) -> None:
    """Scores were written, then the table's µ ended the step with a traceback; so did a file name that is no text."""
    scores = {"queries": 1, "references": 1, "true_pairs": 1, "variants": [], "synthetic": {}, "warnings": []}
    (tmp_path / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    utf8 = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(PIPELINE.parent)}
    scripts = [str(PIPELINE / f"{name}.py") for name in ("match", "06_score", "evaluate", "explore")]
    command = [sys.executable, "-c", PRINTED, *scripts]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | utf8 | {"LC_ALL": locale}, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"usage") == 4 and b".jpg" in done.stdout and b"recall" in done.stdout and not done.stderr


@pytest.mark.parametrize("line", ["--version", "add --version", "a --quries --version"])
def test_the_version_is_said(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    assert (caught.value.code, capsys.readouterr()) == (0, (f"image-copies {image_copies.__version__}\n", ""))
