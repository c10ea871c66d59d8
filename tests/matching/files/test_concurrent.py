"""Many processes carry out one plan at the same moment, each with a temporary folder of its own: no file is lost."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import get_args

import pytest

from image_copies.data.errors import UserError
from image_copies.matching.commands import applying, deciding  # noqa: F401 - before the processes are forked
from image_copies.matching.files.journal import Way
from image_copies.pipeline.match import main
from tests.albums import pictures_below, write_album
from tests.folders import read_tree

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
PROCESSES = pytest.mark.parametrize("processes", [20, pytest.param(100, marks=pytest.mark.faults)])
WAYS = pytest.mark.parametrize("way", get_args(Way))


@pytest.fixture
def desk(own_desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """album/ and matches/plan.csv, by which one file of each group stays."""
    monkeypatch.chdir(own_desk)
    write_album(own_desk)
    return own_desk


def at_once(commands: Sequence[Sequence[str]], desk: Path) -> list[int | None]:
    """Carry out commands in processes that begin together; returns their exit codes."""
    context = get_context("fork")
    together = context.Barrier(len(commands))
    processes = [
        context.Process(target=carry_out, args=(desk / f"tmp{number}", command, together))
        for number, command in enumerate(commands)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def carry_out(temporary: Path, command: Sequence[str], together: Barrier) -> None:
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    together.wait()
    try:
        os._exit(main([*command, "--quiet"]))
    except UserError as error:
        os._exit(2 if "Wait for it" in str(error) else 3)


@WAYS
@PROCESSES
def test_of_one_folder_of_results_one_process_has_the_journal(desk: Path, processes: int, way: Way) -> None:
    before, held = read_tree(desk / "album"), pictures_below(desk)
    codes = at_once([["--apply", way]] * processes, desk)
    assert pictures_below(desk) == held and set(codes) <= {0, 2} and 0 in codes
    assert read_tree(desk / "album") != before
    assert main(["--undo"]) == 0 and read_tree(desk / "album") == before


@WAYS
@PROCESSES
def test_of_folders_that_no_lock_keeps_apart_no_file_is_lost(desk: Path, processes: int, way: Way) -> None:
    """They may choose one place for one file at the same moment; one of them has it then."""
    before, held = read_tree(desk / "album"), pictures_below(desk)
    to = ["--to", "moved"] if way == "move" else []
    outputs = [f"matches{number}" for number in range(processes)]
    for output in outputs:
        shutil.copytree("matches", output)
    codes = at_once([["--apply", way, "--output", output, *to] for output in outputs], desk)
    assert pictures_below(desk) == held and set(codes) <= {0, 1}
    for output in outputs:
        main(["--undo", "--output", output])
        assert pictures_below(desk) == held
    assert read_tree(desk / "album") == before
