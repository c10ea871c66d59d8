"""Three functions from Python: copies in folders, two pictures, vectors; they write nothing and need no run."""

import _thread
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw

import image_copies
from image_copies.data.errors import UserError
from image_copies.data.procedural import draw_picture, write_pictures
from image_copies.data.squares import decode_squares
from image_copies.matching.commands import searching
from image_copies.models.inference import embedders
from image_copies.submissions.vectors.files import write_vectors
from tests.pictures import draw

DOCS = Path(__file__).parents[3] / "docs" / "matching.md"


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interface") / "album"
    list(write_pictures(folder, "R", 4, seed=1, workers=1))
    with Image.open(folder / "R000002.jpg") as image:
        image.resize((image.width // 2, image.height // 2)).save(folder / "small.jpg")
    return folder


def test_copies_are_grouped_with_the_larger_first_and_nothing_is_written(album: Path) -> None:
    before = sorted(album.iterdir())
    assert image_copies.find_copies(album) == [[album / "R000002.jpg", album / "small.jpg"]]
    assert sorted(album.iterdir()) == before


def test_groups_are_a_table_and_a_grid_of_pictures(
    album: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = image_copies.find_copies(album)
    assert capsys.readouterr() == ("", ""), "bars are for terminals and notebooks"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
        image_copies.find_copies(album)
    assert "image/s" in capsys.readouterr().err
    table = found.to_pandas()
    assert table["file"].tolist() == found[0] and table["action"].tolist() == ["keep", "remove"]
    assert table["score"].dtype == float and table["class"][1] == "certain" and table["width"].tolist() == [192, 96]
    grid = found._repr_html_()
    assert grid == found.show()._repr_html_() and grid.count('<img src="data:image/jpeg;base64,') == 2
    assert not found.show(groups=0).rows
    assert "overflow-wrap:anywhere" in grid, "long names are broken, and run into no other"
    assert image_copies.compare(*found[0]).judgement.kind == "certain"
    laid = found.show(laid=True)._repr_html_()
    assert laid.count("data:image/jpeg") == 5 and "small.jpg on R000002.jpg" in laid
    found[0][1].rename(album.parent / "gone.jpg")
    assert "No such file" in found._repr_html_()
    (album.parent / "gone.jpg").rename(found[0][1])
    nothing = image_copies.find_copies([str(album / "R000001.jpg"), str(album / "R000003.jpg")])
    assert nothing == [] and list(nothing.to_pandas().columns) == list(table.columns) and nothing._repr_html_() == ""


def test_of_a_group_only_what_nobody_would_miss_is_removable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A captioned copy is certain, and to be looked at; a picture of which only a part is alike is a near pair."""
    original = draw(3, 480, 480)
    captioned = original.copy()
    ImageDraw.Draw(captioned).text((40, 400), "ALL OF US", (255, 255, 255), font_size=48, stroke_width=3, stroke_fill=(0, 0, 0))
    turned = np.asarray(original).copy()
    turned[:, :240] = turned[::-1, :240]
    for name, picture in (("original", original), ("captioned", captioned), ("partly", Image.fromarray(turned))):
        picture.save(tmp_path / f"{name}.png")
    original.resize((360, 360)).save(tmp_path / "smaller.jpg", quality=85)
    monkeypatch.setattr(searching, "choose_effort", lambda *given: (10, False, "views were left out"))
    found = image_copies.find_copies(tmp_path)
    (group,) = found
    assert sorted(group) == [tmp_path / name for name in ("captioned.png", "original.png", "smaller.jpg")]
    assert group.removable == [tmp_path / "smaller.jpg"] and found.left_out == "views were left out"
    near = found.to_pandas(near=True)
    assert set(near["class"]) <= {"likely", "same scene"} and (tmp_path / "partly.png") in {*near["query"], *near["reference"]}


def test_an_interrupted_search_leaves_nothing(album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, decoded = sorted(album.iterdir()), list[bool]()

    def decode_and_interrupt(*given: Any) -> Any:
        decoded.append(any(tmp_path.iterdir()))
        if len(decoded) == 1:
            _thread.interrupt_main()
        return decode_squares(*given)

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(embedders, "decode_squares", decode_and_interrupt)
            image_copies.find_copies(album)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert decoded[0], "the folder was there at the interrupt; the thread's batch may end after it has gone"
    assert not any(tmp_path.iterdir()) and sorted(album.iterdir()) == before
    assert len(image_copies.find_copies(album)) == 1


def test_a_picture_on_a_page_is_found_as_by_the_command(tmp_path: Path) -> None:
    """Only a crop of the page finds it, which was not looked at."""
    picture = draw_picture(np.random.default_rng(5), 300)
    letters = np.random.default_rng(0).integers(0, 2, (*(side // 4 for side in picture.shape[:2]), 1), np.uint8) * 255
    page = np.concatenate([picture, letters.repeat(4, 0).repeat(4, 1).repeat(3, 2)], axis=1)
    for name, pixels in (("page.png", page), ("picture.png", picture)):
        Image.fromarray(pixels).save(tmp_path / name)
    assert image_copies.find_copies(tmp_path, verify=10) == []
    assert image_copies.find_copies(tmp_path) == [[tmp_path / "page.png", tmp_path / "picture.png"]]


@pytest.mark.parametrize("verify", [-1, 2.5, "x", True])
def test_what_is_no_number_of_pictures_is_named(album: Path, verify: Any) -> None:
    """A negative number looked at fewer pairs, and found less without a word."""
    with pytest.raises(UserError, match=r"^verify is .*: give "):
        image_copies.find_copies(album, verify=verify)


def test_two_pictures_are_compared(album: Path) -> None:
    assert image_copies.compare(album / "R000002.jpg", album / "small.jpg").is_copy
    assert not image_copies.compare(album / "R000002.jpg", album / "R000001.jpg").is_copy
    shutil.copy(album / "R000001.jpg", album.parent / "again.jpg")
    assert image_copies.compare(album / "R000001.jpg", str(album.parent / "again.jpg")).judgement.reason == "the same bytes"


def draw_form(total: str, turned: float) -> Image.Image:
    """A page of words with a number, as a scanner sees it, turned by so many degrees."""
    page, rng = np.full((1000, 800, 3), 255, np.uint8), np.random.default_rng(3)
    for y in range(40, 960, 28):
        words = ("".join(map(chr, rng.integers(97, 123, rng.integers(2, 9)))) for _ in range(12))
        cv2.putText(page, " ".join(words), (40, y), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 1, cv2.LINE_AA)
    page[560:600, 480:780] = 255
    cv2.putText(page, f"Total: {total} EUR", (490, 590), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 1, cv2.LINE_AA)
    return Image.fromarray(page).rotate(turned, Image.Resampling.BICUBIC, fillcolor="white")


def test_a_turned_form_with_another_digit_is_not_certainly_a_copy(tmp_path: Path) -> None:
    """The plan had a person look at it, `compare` was certain."""
    draw_form("1,334", 0).save(tmp_path / "form.png")
    found = []
    for total in ("1,334", "1,384"):
        draw_form(total, 1).save(tmp_path / f"{total}.jpg", quality=80)
        judgement = image_copies.compare(tmp_path / "form.png", tmp_path / f"{total}.jpg").judgement
        assert judgement is not None and judgement.is_copy
        found.append(judgement)
    assert [judgement.kind for judgement in found] == ["certain", "likely"]
    assert found[1].reason.startswith("a part of the two differs")


def test_vectors_have_unit_length_and_copies_are_near(album: Path) -> None:
    vectors = image_copies.embed([album / "R000002.jpg", album / "small.jpg", album / "R000001.jpg"])
    assert vectors.shape == (3, 256) and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.9 > 0.2 > vectors[0] @ vectors[2]


def test_what_cannot_be_decoded_is_named(album: Path) -> None:
    broken = album.parent / "broken.jpg"
    broken.write_bytes(b"no picture")
    for name, said in (("broken.jpg", "is not an image"), ("gone.jpg", "cannot be read .*No such file")):
        with pytest.raises(UserError, match=said):
            image_copies.embed([album / "R000002.jpg", album.parent / name])
    assert image_copies.embed([]).shape == (0, 256)
    assert np.array_equal(image_copies.embed(str(album / "R000002.jpg")), image_copies.embed([album / "R000002.jpg"]))
    with pytest.raises(AttributeError, match="no attribute 'find_copy'"):
        image_copies.find_copy  # type: ignore[attr-defined]  # noqa: B018 - and mypy finds it, too


def test_what_there_is_can_be_seen() -> None:
    assert dir(image_copies) == ["__version__", "compare", "embed", "find_copies", "normalize", "rows_to_keep", "score"]
    described = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    assert image_copies.__version__ == described["project"]["version"]


def test_an_empty_path_is_named() -> None:
    """It would be the current folder, as of an unset variable."""
    for call in (image_copies.find_copies, image_copies.embed, lambda given: image_copies.compare(given, given)):
        with pytest.raises(UserError, match="the path is empty"):
            call("")
    with pytest.raises(UserError, match="no path is given"):
        image_copies.find_copies([])


def test_the_example_finds_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    list(write_pictures(Path("pictures"), "R", 4, seed=1, workers=1))
    Path("queries").mkdir()
    shutil.copy("pictures/R000001.jpg", "queries/copy.jpg")
    shutil.copy("pictures/R000001.jpg", "pictures/again.jpg")
    unit = np.eye(3, 5, dtype=np.float32)
    write_vectors(Path("queries.h5"), ["Q1", "Q2", "Q3"], [unit])
    write_vectors(Path("references.h5"), ["R1", "R2", "R3"], [unit])
    Path("ground_truth.csv").write_text("query_id,reference_id\nQ1,R1\nQ2,\nQ3,R3\n")
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if "import image_copies" in block)
    exec(
        compile(block, str(DOCS), "exec"),
        known := {"query_vectors": unit, "training_vectors": np.eye(200, 5, dtype=np.float32) + 0.1},
    )
    assert isinstance(moved := known["moved"], np.ndarray) and moved.shape == unit.shape
    assert capsys.readouterr().out.splitlines()[-6:] == [
        "R000001.jpg is kept of 2 copies; a plan would remove 1",
        "0 pairs are likely copies or show one scene; nothing was left out",
        "again.jpg is copied",
        "same file",
        "(1, 256)",
        "0.5833333333333333",  # (1/2 + 2/3) / 2: Q2 and R2 are no copies, and as near as the others; false pairs come first
    ]
