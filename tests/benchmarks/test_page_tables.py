"""Tables of results in the documents are those that commands make from files of results."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest
import scale
import speed
from measurements import Measurements
from page_tables import DOCUMENTS, read_table

TOP = Path(__file__).parents[2]
PAGES = sorted([TOP / "README.md", *(TOP / "docs").glob("*.md")])
RESULTS = sorted((TOP / "benchmarks").glob("*.json"))
COMMANDS = (
    *("ablation", "dedup", "edits", "false_alarms", "gpu", "lookalikes", "quality", "same_scene", "verification"),
    "which_original",
)
NO_RESULTS = {"recipe.md", "gpu.md"}  # settings, goals and estimates
ELSEWHERE = {"kept apart", "development"}  # of sets and networks that are not in the repository
BOUNDS = {"what", "guarantee", "images", "key"}  # first heads of tables of estimates, bounds, what was learnt from, settings


def list_tables(page: str) -> list[str]:
    """The tables of a page, without those between the marks of a command."""
    own = re.sub(r"<!-- \S+\.py(?: \w+)? --docs writes from here -->.*?<!-- to here -->", "", page, flags=re.DOTALL)
    return re.findall(r"(?:^\|.*\n?)+", own, re.MULTILINE)


def has_figures(table: str) -> bool:
    """Whether cells are decimal fractions, shares of a number of pictures, or begin with a number."""
    return bool(re.search(r"\|[^|`]*(?:\d?\.\d\d|\d %)[^|`]*\||\|\s*\**\d[\d,.]*\**\s*(?:MB|s|of \d+|%|×)?\s*(?:\||, )", table))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in NO_RESULTS], ids=lambda page: page.name)
def test_a_table_of_results_is_made_by_a_command(page: Path) -> None:
    tables = [table.split("|")[1].strip() for table in list_tables(page.read_text(encoding="utf-8")) if has_figures(table)]
    assert set(tables) <= BOUNDS | ELSEWHERE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_repeats_no_result(page: Path) -> None:
    """Fractions of three digits are scores; 0.001 is the rate that is stated by default."""
    prose = re.sub(r"```.*?```|`[^`]*`|^\|.*?$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"(?<![\d.,])0?\.\d{3,}", prose)) <= {"0.001"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_pages_have_the_tables_of_the_results(name: str) -> None:
    """After measuring: the command with --docs."""
    module = import_module(name)
    for page, table in module.make_tables(Measurements.open(module.RESULTS)).items():
        assert read_table(DOCUMENTS / page, module.COMMAND) == table


def test_the_pages_have_the_tables_of_speed_and_what_the_rates_of_scale_come_to() -> None:
    """After measuring a part: speed.py with its name and --docs; after a rate was changed: scale.py --docs."""
    for part, (_, make_tables) in speed.PARTS.items():
        for page, table in make_tables(Measurements.open(speed.RESULTS)).items():
            assert read_table(DOCUMENTS / page, f"benchmarks/speed.py {part} --docs") == table
    for page, table in scale.make_tables().items():
        assert read_table(DOCUMENTS / page, scale.COMMAND) == table


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_results_say_what_made_them(path: Path) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))["measurements"]
    assert kept and all(entry["commit"] and entry["machine"] and entry["seed"] is not None for entry in kept)
