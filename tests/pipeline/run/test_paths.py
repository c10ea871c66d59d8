import runpy
from pathlib import Path

import pytest

PIPELINE = Path(__file__).parents[3] / "pipeline"


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("match", ["--index", "kept", "--remove", ""]),
        ("match", ["--index", "kept", "--remove", "a", ""]),
        ("match", ["--queries", "pictures", "--output", ""]),
        ("make_data", ["--output", ""]),
        ("export", ["--output", ""]),
        ("00_augment", ["--run", ""]),
        ("06_score", ["--submission", ""]),
    ],
)
def test_an_empty_path_is_refused(
    script: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--remove "$UNSET"` took the current folder and emptied the index."""
    monkeypatch.chdir(tmp_path)
    path = next(PIPELINE.rglob(f"{script}.py"))
    monkeypatch.setattr("sys.argv", [str(path), *arguments])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(path), run_name="__main__")
    assert caught.value.code == 2 and "the path is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_every_path_option_refuses_an_empty_one() -> None:
    assert not [path for path in PIPELINE.rglob("*.py") if "type=Path" in path.read_text(encoding="utf-8")]
