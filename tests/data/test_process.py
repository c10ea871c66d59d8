import pytest

from image_copies.data.process import choose_workers, is_first_process, print_once, process_count, process_rank


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


@pytest.mark.parametrize(
    ("cores", "processes", "unsaid", "of_40"), [(2, 1, 2, 40), (1, 1, 1, 40), (64, 1, 16, 40), (64, 8, 8, 5), (4, 80, 1, 1)]
)
def test_workers_are_those_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, cores: int, processes: int, unsaid: int, of_40: int
) -> None:
    """Eight processes with `workers: 16` were 128 loaders."""
    monkeypatch.setattr("image_copies.data.process.usable_cores", lambda: cores)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert (choose_workers(None), choose_workers(40), choose_workers(0)) == (unsaid, of_40, 0)
