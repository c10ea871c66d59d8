"""No command writes over a file that is not its own."""

import re
from pathlib import Path

import pytest
from PIL import Image

from image_copies.pipeline.command import main

PIPELINE = Path(__file__).parents[2] / "pipeline"
SCRIPTS = ("02_embed", "06_score", "export", "deduplicate", "make_data", "match_options")
WRITES = {  # options that name what is written, and in which files they are
    "--output": {f"{name}.py" for name in SCRIPTS},
    "--details": {"06_score.py"},
    "--show": {"match_options.py"},
    "--to": {"match_options.py"},  # a plan's step leaves alone what exists there
    "--apply": {"deduplicate.py"},
}


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An album, the current folder's `al`, with further files that people have."""
    monkeypatch.chdir(tmp_path)
    album = tmp_path / "al"
    album.mkdir()
    for name in "abc":
        Image.effect_noise((64, 64), 50).save(album / f"{name}.jpg")
    for name in ("plan.csv", "unreadable.txt", "index.html", "keep.txt", "recall_by_edit.csv", "dataset.json", "x.json"):
        (album / name).write_text("mine, of the garden\n")
    (album / "lists").mkdir()
    (album / "lists" / "wishes.txt").write_text("a boat\n")
    for ending in ("csv", "png", "h5", "parquet", "onnx", "safetensors", "network.safetensors"):
        (album / f"v.{ending}").write_bytes(b"mine")
    (tmp_path / "truth.csv").write_text("query_id,reference_id\na,b\n")
    return album


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(
            (f"embed --images al --output al/{name}", "--output")
            for name in ("a.jpg", "v.h5", "v.parquet", "v.onnx", "plan.csv", "new.jpg")
        ),
        *((f"match al/a.jpg al/b.jpg --show al/{name}", "--show") for name in ("a.jpg", "b.jpg", "c.jpg", "keep.txt", "v.png")),
        ("match al --output al", "--output"),
        ("match al --output al/a.jpg", "--output"),
        ("match add al --index al", "--index"),
        ("dedup --input al --output al", "--output"),
        *(
            (f"score --queries q.h5 --references r.h5 --ground-truth truth.csv --output al/{name}", "--output")
            for name in ("a.jpg", "x.json", "new.csv")
        ),
        ("score --submission s.h5 --ground-truth truth.csv --output al/x.json", "--output"),
        ("score --submission s.h5 --ground-truth truth.csv --details al", "--details"),
        *((f"export --output al/{name}", "--output") for name in ("a.jpg", "v.onnx", "v.safetensors", "new.h5")),
    ],
)
def test_a_command_refuses_what_is_not_its_own(
    album: Path, command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in album.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    said = capsys.readouterr().err
    assert ended.value.code == 2 and option in said and re.search("left alone|must end in|is a file", said), said
    assert {path: path.read_bytes() for path in album.rglob("*") if path.is_file()} == before


def test_no_option_that_names_a_target_is_forgotten() -> None:
    named = r'"(--(?:out\w*|details|report|show|to|apply|save\w*|write\w*))"(?:,\s*type=|: (?:cli\.)?(?:DIR|FILE|PLACE)\b)'
    found: dict[str, set[str]] = {}
    for path in [*PIPELINE.glob("*.py"), *(PIPELINE / "tools").glob("*.py")]:
        for option in re.findall(named, path.read_text(encoding="utf-8")):
            found.setdefault(option, set()).add(path.name)
    assert found == WRITES


@pytest.mark.parametrize("command", ["match al --output {}", "embed --images al --output {}.h5"])
def test_a_name_that_no_disk_holds_is_named(album: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.format("x" * 300).split())
    assert ended.value.code == 2 and re.search("longer than the disk|name too long", capsys.readouterr().err)
