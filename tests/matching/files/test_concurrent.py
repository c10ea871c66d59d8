"""Many processes carry out plans at the same moment, each with a lock of its own: no file is lost."""

import os
import shutil
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import get_args

import pytest

from image_copies.data.errors import UserError
from image_copies.data.files import digest_file
from image_copies.matching import results
from image_copies.matching.files.acting import hold_files
from image_copies.matching.files.journal import LeftAloneError, Way
from image_copies.matching.files.plan import PlanRow, write_plan
from image_copies.matching.results import SearchNotes, write_notes
from image_copies.pipeline.match import main
from tests.albums import pictures_below, write_album
from tests.folders import read_tree

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
PROCESSES = pytest.mark.parametrize("processes", [8, pytest.param(100, marks=pytest.mark.faults)])
PAIRS = 100
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
    pytest.MonkeyPatch().setattr(results, "_lock", lambda: temporary / "lock")
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


@WAYS
def test_of_two_plans_that_mirror_each_other_one_file_of_each_pair_stays(
    own_desk: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """No lock of all plans keeps them apart, as of two users."""
    monkeypatch.chdir(own_desk)
    monkeypatch.setattr(results, "_read_rejected_pairs", lambda *_: set())  # there is no index
    album, plans = own_desk / "album", [list[PlanRow](), list[PlanRow]()]
    album.mkdir()
    for number in range(PAIRS):
        files = [album / f"{number}{letter}.jpg" for letter in "ab"]
        for file in files:
            file.write_bytes(file.name.encode())
        for rows, (kept, other) in zip(plans, (files, files[::-1]), strict=True):
            for action, file in (("keep", kept), ("remove", other)):
                sha256 = digest_file(file)
                rows.append(PlanRow(number, action, file, kept, "", None, None, False, sha256))  # type: ignore[arg-type]
    held = pictures_below(own_desk)
    for name, rows in zip("ab", plans, strict=True):
        Path(name).mkdir()
        write_plan(own_desk / name / "plan.csv", rows)
        write_notes(own_desk / name, SearchNotes((), ()))
    codes = at_once([["--apply", way, "--output", name] for name in "ab"], own_desk)
    assert set(codes) <= {0, 1} and pictures_below(own_desk) == held
    stay = {path.name for path in album.iterdir() if not path.is_symlink()}
    assert all({f"{number}a.jpg", f"{number}b.jpg"} & stay for number in range(PAIRS))


def test_a_file_that_another_process_relies_on_or_removes_is_left_alone(own_desk: Path) -> None:
    files = [own_desk / f"{letter}.jpg" for letter in "abc"]
    for file in files:
        file.write_bytes(file.name.encode())
    one, other, third = files
    with hold_files(one, other):
        for file, kept in ((one, other), (one, third), (other, one), (other, third), (third, one)):
            with pytest.raises(LeftAloneError), hold_files(file, kept):
                pass
        with hold_files(third, other), hold_files(own_desk / "missing", other):
            pass
    with hold_files(one, one), hold_files(other, third):
        pass
