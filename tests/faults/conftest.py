"""What the tests of faults share: a process that forks commands, folders to work in, and a table of what was tried."""

from collections.abc import Callable, Iterator

import pytest

from tests.faults.harness import Forks, Ledger
from tests.faults.workshop import Workshop

TRIED = "tried"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was tried, as rows of a table."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    rows = [row for report in reports for name, row in report.user_properties if name == TRIED]
    if rows:
        terminalreporter.section("faults: what was tried, cases, failures, seconds")
        for row in rows:
            terminalreporter.write_line(row)


@pytest.fixture
def ledger(record_property: Callable[[str, object], None]) -> Ledger:
    """Writes down what was tried and fails the test if anything did; rows are printed at the end, and with -s at once."""

    def write(what: str, cases: int, failures: list[str], seconds: float) -> None:
        row = f"| {what} | {cases} | {len(failures)} | {seconds:.0f} |"
        print(row, *failures, sep="\n", flush=True)
        record_property(TRIED, row)
        assert not failures, "\n".join(failures)

    return write


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """A process that forks commands."""
    made = Forks(tmp_path_factory.mktemp("forks"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Workshop:
    """Where the jobs are done."""
    return Workshop(tmp_path_factory.mktemp("workshop"), forks)
