"""imagededup's own tests of its CNN, run with the calls that stand for it here.

    python benchmarks/imagededup_suite.py --suite DIR [--results FILE.json] [--docs]

--suite: a checkout of github.com/idealo/imagededup. Its tests/test_cnn.py is run as it is, but for the number of dimensions of a
vector. Counted are tests of what a notebook calls; those of its internals (private functions, other networks, calls between them)
and of its own network's scores are listed.
"""

import argparse
import ast
import contextlib
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
from measurements import Figures, Measurements
from page_tables import make_table, write_tables

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.matching.imagededup import CNN
from image_copies.pipeline.run.cli import report_errors

RESULTS = Path(__file__).with_name("imagededup_suite.json")
COMMAND = "benchmarks/imagededup_suite.py --docs"
THEIR_DIMENSIONS, DIMENSIONS = "576", "256"
INTERNALS = ("cnn._", "mocker", "CustomModel", "cnn.batch_size")
SCORES = ("min_similarity_threshold=0.9", "min_similarity_threshold=0.7")  # which pairs a cosine of their network finds
COUNTED = "what a notebook calls"


class Outcomes:
    """A plugin of pytest that keeps how each test ended."""

    def __init__(self) -> None:
        self.passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a test: passed if its set-up and its call did."""
        name = report.nodeid.rpartition("::")[2]
        self.passed[name] = self.passed.get(name, True) and not report.failed


def classify(source: str) -> dict[str, str]:
    """Return what each test of a file is about, by its name."""
    found = dict[str, str]()
    for test in ast.parse(source).body:
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test"):
            text = ast.get_source_segment(source, test) or ""
            kind = "internals" if any(word in text for word in INTERNALS) else COUNTED
            found[test.name] = "its network's scores" if kind == COUNTED and any(word in text for word in SCORES) else kind
    return found


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """Let what the tests import from imagededup and torchvision be ours within the block; what has no place here is a mock."""
    modules: dict[str, Any] = {name: ModuleType(name) for name in ("imagededup", "imagededup.methods", "imagededup.methods.cnn")}
    modules["imagededup.methods"].CNN = modules["imagededup.methods.cnn"].CNN = CNN
    modules["imagededup.utils.image_utils"] = MagicMock(load_image=lambda path, target_size=None: decode_rgb(Path(path)))
    mocked = ("imagededup.utils", "imagededup.utils.models", "torchvision", "torchvision.transforms")
    with patch.dict(sys.modules, modules | {name: MagicMock() for name in mocked}):
        yield


def run_suite(checkout: Path) -> tuple[dict[str, str], dict[str, bool]]:
    """Run the tests in a copy; return what each is about, and whether each passed.

    Raises:
        UserError: The folder is no checkout of imagededup.
    """
    tests = checkout.resolve() / "tests"
    if not (tests / "test_cnn.py").is_file():
        raise UserError(f"{checkout} has no tests/test_cnn.py. Give a checkout of github.com/idealo/imagededup.")
    source = (tests / "test_cnn.py").read_text(encoding="utf-8").replace(THEIR_DIMENSIONS, DIMENSIONS)
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name), stand_in(), contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name).resolve()
        (folder / "data").symlink_to(tests / "data")
        (folder / "test_cnn.py").write_text(source, encoding="utf-8")
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", name, "-o", "addopts=", str(folder)], [outcomes]
        )
    return classify(source), outcomes.passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, metavar="DIR")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE.json")
    parser.add_argument("--docs", action="store_true", help="also write the table of matching.md")
    options = parser.parse_args()
    with report_errors():
        store = Measurements.open(options.results)
        if options.suite:
            kinds, passed = run_suite(options.suite)
            for kind in sorted(set(kinds.values())):

                def count(_seed: int, kind: str = kind) -> Figures:
                    return {name: float(passed[name]) for name, of in kinds.items() if of == kind and name in passed}

                store.measure(kind, {"suite": "tests/test_cnn.py"}, [0], count)
        tables = make_tables(store)
        print(*tables.values())
        if options.docs:
            write_tables(tables, COMMAND)


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of matching.md: how many tests of a kind there are and pass, and which of those that count fail."""
    rows = list[list[str]]()
    for entry in store.measurements:
        counted = entry["name"] == COUNTED
        failed = [f"`{name}`" for name, passed in entry["figures"].items() if not passed]
        shown = str(len(entry["figures"]) - len(failed)) if counted else "not counted"
        rows.append([entry["name"], str(len(entry["figures"])), shown, ", ".join(failed) if counted else ""])
    return {"matching.md": make_table(["imagededup's tests of its CNN: of", "tests", "pass", "fail"], rows)}


if __name__ == "__main__":
    main()
