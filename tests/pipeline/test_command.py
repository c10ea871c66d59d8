"""The command image-copies: what it takes, how it names commands in messages, and how little it says and imports."""

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from image_copies.data.commands import TASKS as TASKS_OF_SCRIPTS
from image_copies.data.commands import name_command
from image_copies.pipeline import command
from image_copies.pipeline.command import TASKS, main
from image_copies.pipeline.run.cli import add_options, make_task_parser
from image_copies.pipeline.streams import end_with_reader
from image_copies.pipeline.tools.match_options import parse_line
from tests.pictures import write_album

TOP = Path(__file__).parents[2]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, in which image-copies was typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/image-copies"])
    return tmp_path


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command") / "album"
    write_album(folder)
    return folder


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("review", "matches/search.json: there are no results of a search. Search first: image-copies match DIR writes them."),
        ("review found", "found/search.json: there are no results"),
        ("serve", "give one with --index DIR (image-copies match add DIR --index DIR makes it)."),
        ("serve --index kept", "Make it with: image-copies match add DIR --index kept"),
        ("embed --images .", "--images and --output must be given together"),
        ("score --submission a.h5", "--submission and --ground-truth must be given together"),
        ("export --checkpoint a.safetensors --output b.safetensors", "--checkpoint is already a checkpoint"),
        ("mach", "mach is neither a task nor a file or folder. Did you mean: image-copies match"),
        ("one.jpg", "one.jpg does not exist. Name a folder"),
    ],
)
def test_each_task_does_what_its_script_does(line: str, message: str, typed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(line.split())
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2 and message in capsys.readouterr().err


def test_dedup_without_its_extra_is_refused_before_anything_is_written(
    typed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SystemExit) as ended:
        main(["dedup", "--input", ".", "--output", "out"])
    assert ended.value.code == 2 and "dedup writes Parquet, which needs pyarrow. Install it with: " in capsys.readouterr().err
    assert not list(typed.iterdir())


@pytest.mark.parametrize("task", TASKS)
def test_help_names_the_task_as_it_is_typed(task: str, typed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([task, "--help"])
    shown = capsys.readouterr().out
    script = TASKS[task][0]
    assert end.value.code == 0 and shown.startswith(f"usage: image-copies {TASKS_OF_SCRIPTS[script]} ")
    assert f"{script}.py" not in shown and task in (command.__doc__ or "")


def test_the_examples_of_the_help_are_valid_and_it_imports_nothing_slow(tmp_path: Path) -> None:
    examples = (command.__doc__ or "").partition("Five examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(examples) == 5 and all(line.split()[0] == "image-copies" for line in examples)
    for _, *words in map(shlex.split, examples):
        if words[0] not in TASKS or words[0] == "match":
            parse_line([word.replace("~/Pictures", str(tmp_path)) for word in words if word != "match"])
    program = "import sys, image_copies.pipeline.command as c; c.main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=True)
    assert not {"numpy", "cv2", "torch", "pydantic"} & set(done.stdout.split())


PROGRAM, MODULE = ("image-copies {}", "python -m image_copies.pipeline.{}")


@pytest.mark.parametrize(
    ("called", "words", "match", "step"),
    [
        ("/usr/bin/image-copies", [], PROGRAM, MODULE),
        ("pipeline/match.py", [], "python pipeline/{}.py", "python pipeline/{}.py"),
        ("../x/pipeline/explore.py", [], "python ../x/pipeline/{}.py", "python ../x/pipeline/{}.py"),
        ("/x/match.py", ["-m", "image_copies.pipeline.match"], MODULE, MODULE),
        ("/usr/bin/pytest", ["-m", "pytest"], "python pipeline/{}.py", "python pipeline/{}.py"),
    ],
)
def test_messages_name_the_command_as_it_was_called(
    called: str, words: list[str], match: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr(sys, "orig_argv", ["python", *words])
    assert (name_command("match"), name_command("05_submit")) == (match.format("match"), step.format("05_submit"))


def test_folders_are_searched_and_nothing_but_words_is_shown(
    album: Path, typed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [sys.executable, "-m", "image_copies.pipeline.command", str(album)]
    done = subprocess.run(line, capture_output=True, text=True, env={"PYTHONPATH": str(TOP), "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0 and "1 group of 2 files" in done.stdout
    assert not done.stderr, "bars are for terminals"
    assert main([str(album), "--quiet"]) == 0 and tuple(capsys.readouterr()) == ("", "")


@pytest.mark.parametrize("seed", ["-1", "18500000000000", "two"])
def test_an_impossible_seed_is_a_line(capsys: pytest.CaptureFixture[str], seed: str) -> None:
    with pytest.raises(SystemExit):
        options = make_task_parser("make_data", "")
        add_options(options, ["--seed"], importlib.import_module("image_copies.pipeline.make_data").OPTIONS)
        options.parse_args(["--seed", seed])
    assert f"{seed}: give a whole number from 0 to" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell whether a pipe is read")
@pytest.mark.parametrize("arguments", [["--help"], ["match", "--help"], ["nowhere", "--json"]])
def test_nobody_reads_the_output(tmp_path: Path, arguments: list[str]) -> None:
    """As before `head`: no traceback, and an error that has another cause is still said."""
    command_line = [sys.executable, "-u", str(TOP / "pipeline" / "command.py"), *arguments]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command_line, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    os.close(writer)
    if "--help" in arguments:
        assert not done.stderr and done.returncode in (0, 141)  # argparse ignores what it cannot print
    else:
        assert done.returncode == 2 and done.stderr.startswith("error: nowhere")


def test_another_broken_pipe_propagates() -> None:
    with pytest.raises(BrokenPipeError), end_with_reader():
        raise BrokenPipeError
