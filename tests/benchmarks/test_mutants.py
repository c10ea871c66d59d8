"""The list of deliberate errors fits the files that it names."""

from mutants import list_mutants

from tests.sources import TOP


def test_each_error_is_in_its_file_exactly_once() -> None:
    mutants = list(list_mutants([]))
    wrong = [each for each in mutants if (TOP / each.file).read_text(encoding="utf-8").count(each.old) != 1]
    assert mutants and not wrong
