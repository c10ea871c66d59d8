"""A notebook written for imagededup runs with its imports changed, and gets the types and keys that it knows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from image_copies.data.procedural import write_pictures
from image_copies.matching.imagededup import CNN, plot_duplicates

NOTEBOOK = """
from imagededup.methods import CNN
from imagededup.utils import plot_duplicates

encoder = CNN()
encodings = encoder.encode_images(image_dir='album')
duplicates = encoder.find_duplicates(encoding_map=encodings, min_similarity_threshold=0.8, scores=True)
for name, found in duplicates.items():
    print(name, [(other, round(float(score), 1)) for other, score in found])
print(encoder.find_duplicates(image_dir='album', min_similarity_threshold=0.8)['small.jpg'])
plot_duplicates(image_dir='album', duplicate_map=duplicates, filename='R000002.jpg')
"""


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dedup") / "album"
    list(write_pictures(folder, "R", 3, seed=1, workers=1))
    with Image.open(folder / "R000002.jpg") as image:
        image.resize((image.width * 3 // 4, image.height * 3 // 4)).save(folder / "small.jpg")
    (folder / "below").mkdir()
    (folder / "R000001.jpg").rename(folder / "below" / "R000001.jpg")
    (folder / "notes.txt").write_text("no picture")
    return folder


def test_a_notebook_runs_with_its_imports_changed(
    album: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(album.parent)
    ours = NOTEBOOK.replace("imagededup.methods", "image_copies.matching.imagededup")
    cells, shown = ours.replace("imagededup.utils", "image_copies.matching.imagededup").strip().rpartition("\n")[::2]
    known: dict[str, Any] = {}
    exec(cells, known)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "R000000.jpg []" and lines[1].startswith("R000002.jpg [('small.jpg', ")
    assert lines[3:] == ["['R000002.jpg']"]
    grid = eval(shown, known)._repr_html_()
    assert grid.count("<img src=") == 2 and "small.jpg" in grid
    vector = known["encodings"]["R000002.jpg"]
    assert isinstance(vector, np.ndarray) and vector.shape == (256,) and vector.dtype == np.float32
    assert isinstance(known["duplicates"]["small.jpg"][0], tuple)


def test_folders_below_are_looked_into_where_asked(album: Path) -> None:
    encoded = CNN(verbose=False).encode_images(str(album), recursive=True)
    assert set(encoded) == {"R000000.jpg", "R000002.jpg", "small.jpg", str(Path("below", "R000001.jpg"))}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda encoder: encoder.encode_images("missing"), "missing is not a folder"),
        (lambda encoder: encoder.find_duplicates(), "neither image_dir nor encoding_map"),
        (lambda encoder: encoder.find_duplicates(encoding_map={"a": [1.0]}, min_similarity_threshold=1.5), "is 1.5; give"),
        (lambda encoder: plot_duplicates(".", {"a": []}, "a"), "a has no duplicates"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[CNN], Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        call(CNN(verbose=False))


def test_vectors_of_any_length_are_compared_by_their_cosine() -> None:
    encoded = {"a": np.array([3.0, 0]), "b": np.array([1.0, 0.1]), "c": np.array([0.0, 2])}
    assert CNN().find_duplicates(encoding_map=encoded) == {"a": ["b"], "b": ["a"], "c": []}
    assert CNN().find_duplicates(encoding_map={}) == {}


def test_a_cosine_of_the_threshold_itself_is_enough() -> None:
    encoded = {"a": np.array([1.0, 0]), "b": np.array([1.0, 0]), "c": np.array([0, 1.0]), "d": np.array([0, -1.0])}
    assert CNN().find_duplicates(encoding_map=encoded, min_similarity_threshold=1.0) == {"a": ["b"], "b": ["a"], "c": [], "d": []}
    orthogonal = CNN().find_duplicates(encoding_map=encoded, min_similarity_threshold=0.0)
    assert orthogonal == {"a": ["b", "c", "d"], "b": ["a", "c", "d"], "c": ["a", "b"], "d": ["a", "b"]}
