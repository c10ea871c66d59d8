"""The list of deliberate errors fits the files that it names."""

import importlib

import pytest

from tests.sources import TOP


def test_each_error_is_in_its_file_exactly_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOP / "benchmarks"))
    mutants = list(importlib.import_module("mutants").list_mutants([]))
    wrong = [each for each in mutants if (TOP / each.file).read_text(encoding="utf-8").count(each.old) != 1]
    assert mutants and not wrong
