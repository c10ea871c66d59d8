"""A notebook written for imagededup runs with its imports changed, and gets the types and keys that it knows."""

import inspect
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from image_copies.data.decode import decode_rgb
from image_copies.data.procedural.sample import write_pictures
from image_copies.matching.imagededup import CNN, plot_duplicates

NOTEBOOK = """
from imagededup.methods import CNN
from imagededup.utils import plot_duplicates

encoder = CNN()
encodings = encoder.encode_images(image_dir='album')
duplicates = encoder.find_duplicates(encoding_map=encodings, min_similarity_threshold=0.8, scores=True, outfile='found.json')
for name, found in duplicates.items():
    print(name, [(other, round(float(score), 1)) for other, score in found])
print(encoder.find_duplicates(image_dir='album', min_similarity_threshold=0.8)['small.jpg'])
print(encoder.find_duplicates_to_remove(image_dir='album', min_similarity_threshold=0.8, outfile='remove.json'))
plot_duplicates(image_dir='album', duplicate_map=duplicates, filename='R000002.jpg')
"""


@pytest.mark.parametrize(
    ("name", "instead"),
    [("PHash", "Use CNN, .*find_copies"), ("Hashing", "Use CNN"), ("ViT", "Use CNN"), ("evaluate", r"Use image_copies\.score")],
)
def test_what_is_not_there_has_something_instead(name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"imagededup's {name} is not in .*{instead}"):
        exec(f"from image_copies.matching.imagededup import {name}")
    with pytest.raises(ImportError, match="cannot import name 'Cnn'"):
        exec("from image_copies.matching.imagededup import Cnn")


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
    assert lines[3:] == ["['R000002.jpg']", "['small.jpg']"]
    grid = eval(shown, known)._repr_html_()
    assert grid.count("<img src=") == 2 and "small.jpg" in grid
    assert json.loads(Path("remove.json").read_text()) == ["small.jpg"]
    assert json.loads(Path("found.json").read_text())["small.jpg"][0][0] == "R000002.jpg"
    vector = known["encodings"]["R000002.jpg"]
    assert isinstance(vector, np.ndarray) and vector.shape == (256,) and vector.dtype == np.float32
    assert isinstance(known["duplicates"]["small.jpg"][0], tuple)


def test_one_picture_is_encoded_from_a_file_or_from_pixels(album: Path) -> None:
    encoder, path = CNN(verbose=False), album / "R000002.jpg"
    encoded = encoder.encode_images(str(album), recursive=True)
    assert set(encoded) == {"R000000.jpg", "R000002.jpg", "small.jpg", str(Path("below", "R000001.jpg"))}
    one, other = encoder.encode_image(image_file=path), encoder.encode_image(image_array=decode_rgb(path))
    assert one is not None and other is not None and one.shape == (1, 256)
    assert np.allclose(one[0], encoded["R000002.jpg"], atol=1e-5) and one[0] @ other[0] > 0.99
    grey = encoder.encode_image(image_array=decode_rgb(path)[..., 0])
    assert grey is not None and grey.shape == (1, 256)
    assert encoder.encode_image(image_file=album / "notes.txt") is None


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda encoder: encoder.encode_images("missing"), "missing is not a folder"),
        (lambda encoder: encoder.encode_image(), "neither image_file nor image_array"),
        (lambda encoder: encoder.encode_image("missing.jpg"), r"missing\.jpg is not a file"),
        (lambda encoder: encoder.find_duplicates(), "neither image_dir nor encoding_map"),
        (lambda encoder: encoder.find_duplicates(encoding_map={"a": [1.0]}, min_similarity_threshold=1.5), "is 1.5; give"),
        (lambda encoder: plot_duplicates(".", {"a": []}, "a"), "a has no duplicates"),
        (lambda encoder: CNN(model_config=encoder), "model_config"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[CNN], Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        call(CNN(verbose=False))
    with pytest.raises(TypeError, match="give a float"):
        CNN().find_duplicates(encoding_map={"a": [1.0]}, min_similarity_threshold=1)


def test_vectors_of_any_length_are_compared_by_their_cosine() -> None:
    encoded = {"a": np.array([3.0, 0]), "b": np.array([1.0, 0.1]), "c": np.array([0.0, 2])}
    assert CNN().find_duplicates(encoding_map=encoded) == {"a": ["b"], "b": ["a"], "c": []}
    assert CNN().find_duplicates_to_remove(encoding_map=encoded) == ["b"]


def test_a_cosine_of_the_threshold_itself_is_enough() -> None:
    encoded = {"a": np.array([1.0, 0]), "b": np.array([1.0, 0]), "c": np.array([0, 1.0]), "d": np.array([0, -1.0])}
    assert CNN().find_duplicates(encoding_map=encoded, min_similarity_threshold=1.0) == {"a": ["b"], "b": ["a"], "c": [], "d": []}
    orthogonal = CNN().find_duplicates(encoding_map=encoded, min_similarity_threshold=0.0)
    assert orthogonal == {"a": ["b", "c", "d"], "b": ["a", "c", "d"], "c": ["a", "b"], "d": ["a", "b"]}


def test_of_a_folder_only_what_a_plan_would_remove_is_to_be_removed(tmp_path: Path) -> None:
    """A captioned copy has a cosine above any useful threshold, and something that the other one lacks."""
    list(write_pictures(tmp_path, "R", 2, seed=1, workers=1))
    with Image.open(tmp_path / "R000001.jpg") as image:
        captioned = image.convert("RGB")
        image.resize((image.width * 3 // 4, image.height * 3 // 4)).save(tmp_path / "small.jpg")
    ImageDraw.Draw(captioned).text((20, 20), "1998", (255, 255, 255), font_size=30, stroke_width=2, stroke_fill=(0, 0, 0))
    captioned.save(tmp_path / "captioned.jpg", quality=95)
    shutil.copy(tmp_path / "R000000.jpg", tmp_path / "again.jpg")
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "below").mkdir()
    shutil.copy(tmp_path / "R000000.jpg", tmp_path / "below" / "again.jpg")
    encoder = CNN(verbose=False)
    assert encoder.find_duplicates(tmp_path)["captioned.jpg"][0] == "R000001.jpg"
    removed = encoder.find_duplicates_to_remove(tmp_path)
    assert "captioned.jpg" not in removed and len({"again.jpg", "R000000.jpg"} & set(removed)) == 1
    assert len(encoder.find_duplicates_to_remove(tmp_path, recursive=True)) == len(removed) + 1
    (tmp_path / "empty").mkdir()
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "link").symlink_to(tmp_path)
    for named in (tmp_path / "none" / "link", tmp_path / "none" / ".."):
        assert encoder.find_duplicates_to_remove(named) == removed
    assert encoder.find_duplicates_to_remove(tmp_path / "below") == [] == encoder.find_duplicates_to_remove(tmp_path / "empty")


@pytest.mark.parametrize("name", ["__init__", "encode_image", "encode_images", "find_duplicates", "find_duplicates_to_remove"])
def test_the_arguments_are_those_of_imagededup(name: str) -> None:
    theirs = pytest.importorskip("imagededup.methods", reason="imagededup is not installed").CNN
    named = [list(inspect.signature(getattr(each, name)).parameters) for each in (theirs, CNN)]
    assert named[0] == named[1]
    defaults = [
        {key: each.default for key, each in inspect.signature(getattr(kind, name)).parameters.items() if key != "num_sim_workers"}
        for kind in (theirs, CNN)
    ]
    assert defaults[0] == defaults[1]  # num_sim_workers: the number of this machine's cores


def test_results_are_those_of_imagededup() -> None:
    theirs = pytest.importorskip("imagededup.methods", reason="imagededup is not installed").CNN
    custom: Any = pytest.importorskip("imagededup.utils.models").CustomModel
    torch: Any = pytest.importorskip("torch")
    peer = theirs(verbose=False, model_config=custom(model=torch.nn.Identity(), transform=lambda picture: picture, name="none"))
    rng = np.random.default_rng(0)
    encoded = {f"{row}.jpg": vector for row, vector in enumerate(rng.standard_normal((40, 5)).astype(np.float32))}
    for scores in (False, True):
        expected, found = (
            each.find_duplicates(encoding_map=encoded, min_similarity_threshold=0.8, scores=scores) for each in (peer, CNN())
        )
        assert list(expected) == list(found) and sum(map(len, found.values())) > 20
        for name, others in expected.items():
            if scores:
                assert [other for other, _ in others] == [other for other, _ in found[name]]
                assert np.allclose([score for _, score in others], [score for _, score in found[name]], atol=1e-6)
            else:
                assert others == found[name]
    removed = [each.find_duplicates_to_remove(encoding_map=encoded, min_similarity_threshold=0.8) for each in (peer, CNN())]
    assert sorted(removed[0]) == sorted(removed[1])


def test_pixels_are_levels_or_shares_of_white_and_nothing_else(album: Path) -> None:
    pixels, encoder = np.asarray(Image.open(album / "R000002.jpg").convert("RGB")), CNN(verbose=False)
    expected = encoder.encode_image(image_array=pixels)
    assert expected is not None
    for given in (pixels.astype(np.int64), pixels.astype(np.float32), pixels / 255.0):
        found = encoder.encode_image(image_array=given)
        assert found is not None and np.array_equal(found, expected)
    holed = pixels / 255.0
    holed[0, 0] = np.nan
    for wrong in (
        holed,
        pixels.astype(int) + 200,
        pixels / 255.0 - 0.5,
        np.full((9, 9), "a"),
        pixels[..., :2],
        pixels[:0],
        pixels[0, 0],
    ):
        with pytest.raises(ValueError, match="image_array"):
            encoder.encode_image(image_array=wrong)
