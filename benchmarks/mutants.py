"""Deliberate errors in what decides which files go: does a test notice each of them?

    python benchmarks/mutants.py [--only TEXT …] [--jobs 2]      TEXT: a part of a file's name or of an error

mutants.yaml lists them. In a copy of the working tree one text of one file is replaced, and the tests are run that are named for
it. Errors that no test notices are printed as LIVES; the exit code is 1 if there are any. A text that a file holds not exactly
once is an error.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import yaml

TOP = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutant:
    """A text of a file, what replaces it, and the tests that are to notice."""

    file: str
    tests: str
    old: str
    new: str


def list_mutants(only: Sequence[str]) -> Iterator[Mutant]:
    """Yield those of mutants.yaml, all or those of which a part holds one of the texts."""
    for group in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")):
        for error in group["errors"]:
            mutant = Mutant(group["file"], group["tests"], error["old"], error["new"])
            parts = (mutant.file, mutant.old, mutant.new)
            if not only or any(text in part for text in only for part in parts):
                yield mutant


def copy_tree(target: Path) -> Path:
    """Copy what belongs to the working tree."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if (TOP / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, target / name)
    return target


NO_SUCH_TESTS = (4, 5)  # pytest's exit codes: a name that is none, nothing that is selected


def run_tests(tests: str, tree: Path) -> bool:
    """Whether tests pass in a copy of the tree."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "COPYSETS": ""}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    code = subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=False).returncode
    if code in NO_SUCH_TESTS:
        raise SystemExit(f"There are no tests {tests!r}: adapt the list of errors.")
    return code == 0


def is_noticed(mutant: Mutant, tree: Path) -> bool:
    path = tree / mutant.file
    before = path.read_text(encoding="utf-8")
    if before.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.file} holds {mutant.old!r} {before.count(mutant.old)} times: adapt the list of errors.")
    path.write_text(before.replace(mutant.old, mutant.new), encoding="utf-8")
    noticed = not run_tests(mutant.tests, tree)
    path.write_text(before, encoding="utf-8")
    print(f"{mutant.file}: {mutant.old!r} → {mutant.new!r}: {'noticed' if noticed else 'LIVES'}", flush=True)
    return noticed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help="errors that hold a text, or files whose names do")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="copies of the tree to work in at once (default: 2)")
    options = parser.parse_args()
    mutants, trees = list(list_mutants(options.only)), SimpleQueue[Path]()

    def work(task: Callable[[Path], bool]) -> bool:
        tree = trees.get()
        try:
            return task(tree)
        finally:
            trees.put(tree)

    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.jobs) as pool:
        for number in range(options.jobs):
            trees.put(copy_tree(Path(place) / str(number)))
        chosen = list(dict.fromkeys(mutant.tests for mutant in mutants))
        passed = pool.map(work, [partial(run_tests, tests) for tests in chosen])
        failing = [tests for tests, fine in zip(chosen, passed, strict=True) if not fine]
        if failing:
            raise SystemExit(f"without any error, these tests fail: {'; '.join(failing)}")
        living = list(pool.map(work, [partial(is_noticed, mutant) for mutant in mutants])).count(False)
    print(f"{len(mutants)} errors, {living} of them not noticed")
    return 1 if living else 0


if __name__ == "__main__":
    sys.exit(main())
