import pytest

from data.process import is_first_process, print_once, process_count, process_rank


def test_alone_a_process_is_the_first_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (process_rank(), process_count(), is_first_process()) == (0, 1, True)


def test_only_the_first_of_several_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        print_once(f"process {process_rank()} of {process_count()}")
    assert capsys.readouterr().out == "process 0 of 2\n"
