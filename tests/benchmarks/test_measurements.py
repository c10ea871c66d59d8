"""Files of results that commands share, and the tables of documents that are made from them."""

from pathlib import Path

import pytest
from measurements import Measurements
from page_tables import END, read_table, write_table

from image_copies.data.errors import UserError


def test_figures_name_the_code_that_the_command_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second had "-dirty", because the first was written into a file that git keeps."""
    store = Measurements.open(tmp_path / "claims.json")
    monkeypatch.setattr("measurements.code_version", lambda: "1234567-dirty")
    store.measure("given", {}, [0, 1], lambda seed: {"recall": 0.4})
    assert {entry["commit"] for entry in store.find("given", {}).values()} == {store.commit} != {"1234567-dirty"}


def test_a_stopped_run_goes_on_and_further_seeds_join(tmp_path: Path) -> None:
    done: list[int] = []

    def work(seed: int) -> dict[str, float]:
        if seed == 2 and not (tmp_path / "again").exists():
            raise KeyboardInterrupt
        done.append(seed)
        return {"recall": seed / 10}

    file = tmp_path / "claims.json"
    with pytest.raises(KeyboardInterrupt):
        Measurements.open(file).measure("arm", {"steps": 5}, range(3), work)
    (tmp_path / "again").touch()
    assert [run["recall"] for run in Measurements.open(file).measure("arm", {"steps": 5}, range(4), work)] == [0, 0.1, 0.2, 0.3]
    assert done == [0, 1, 2, 3]
    Measurements.open(file).measure("arm", {"steps": 6}, range(1), work)  # another budget is another measurement
    Measurements.open(file).measure("other arm", {"steps": 5}, range(1), work)
    assert done == [0, 1, 2, 3, 0, 0]


def test_commands_share_a_results_file(tmp_path: Path) -> None:
    """Each used to write what it had read when it began, without what others had written since."""
    first, second = (Measurements.open(tmp_path / "claims.json") for _ in range(2))
    first.measure("arm", {"steps": 5}, range(2), lambda seed: {"recall": 0.1})
    second.measure("other arm", {"steps": 5}, range(1), lambda seed: {"recall": 0.2})
    done: list[int] = []
    second.measure("arm", {"steps": 5}, range(3), lambda seed: done.append(seed) or {"recall": 0.3})  # type: ignore[func-returns-value]
    assert done == [2]  # the other command has measured the others
    found = Measurements.open(tmp_path / "claims.json")
    assert [(entry["name"], entry["seed"]) for entry in found.measurements] == [
        ("arm", 0), ("arm", 1), ("other arm", 0), ("arm", 2)
    ]  # fmt: skip


def test_the_table_is_written_between_the_marks_of_a_document(tmp_path: Path) -> None:
    document = tmp_path / "papers.md"
    document.write_text(f"before\n<!-- command writes from here -->\nold\n{END}\nafter\n", encoding="utf-8")
    write_table(document, "command", "| new |")
    assert read_table(document, "command") == "| new |" and document.read_text(encoding="utf-8").startswith("before\n")
    assert document.read_text(encoding="utf-8").endswith(f"{END}\nafter\n")
    document.write_text("no marks")
    with pytest.raises(UserError, match="no place for the table"):
        write_table(document, "command", "| new |")


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(UserError, match="is not a results file"):
        Measurements.open(tmp_path / "x.json")
