"""A query is searched with views of it, too; what is kept of pictures is what would be made of them again, and is made once."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from image_copies.data.errors import ImageError, UserError
from image_copies.data.procedural import draw_picture
from image_copies.data.squares import resize_square
from image_copies.matching import views as looking
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.filling import add_pictures
from image_copies.matching.index.search import open_search
from image_copies.matching.index.store import open_store
from image_copies.matching.matches import Match, Rule
from image_copies.matching.pairs import PairJudge
from image_copies.matching.search import MOST_VERIFIED, Search, choose_effort
from image_copies.matching.threshold import Tail
from image_copies.matching.verification.features import CHANGES, Features, crop_features, local_features
from image_copies.matching.verification.geometry import verify
from image_copies.matching.views import (
    CROPS,
    MAX_BYTES,
    VIEWS,
    embed_views,
    embed_views_of,
    find_features,
    find_picture,
    keep_looks,
    make_views,
)
from image_copies.models.inference.embedders import Embedder, Squares
from image_copies.models.inference.settings import EmbeddingSettings

TAIL = Tail(start=1.0, scale=0.05, share=0.005, pairs=1000)
RULE = Rule(None, TAIL, 0.001, 10)


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    """A descriptor that sees 16 × 16 grey pixels: neither turned nor cropped pictures are near to it."""

    def embed(squares: Squares) -> NDArray[np.float32]:
        grey = squares[16].mean(axis=1, dtype=np.float32).reshape(-1, 256)
        grey -= grey.mean(axis=1, keepdims=True)
        vectors: NDArray[np.float32] = grey / np.maximum(np.linalg.norm(grey, axis=1, keepdims=True), np.float32(1e-6))
        return vectors

    network = Embedder((16,), 256, embed, nullcontext)
    return Extractor([network], EmbeddingSettings(workers=1), lambda vectors: vectors, 256, "grey pixels")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve drawn pictures, one of them on its side as turned.png, one on a page of noise, page.png, and one as again.jpg."""
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "references").mkdir()
    for number in range(12):
        picture = draw_picture(np.random.default_rng(number), 240)
        Image.fromarray(picture).save(folder / "references" / f"{number}.png")
        if number == 3:
            Image.fromarray(np.rot90(picture, -1)).save(folder / "turned.png")
        if number == 7:
            Image.fromarray(picture).save(folder / "again.jpg")
        if number == 5:
            page = np.random.default_rng(99).integers(0, 256, (40, 40, 3), np.uint8).repeat(10, 0).repeat(10, 1)[:, :267]
            page[80:320, 53:213] = picture
            Image.fromarray(page).save(folder / "page.png")
    return folder


def search(extractor: Extractor, drawn: Path, views: bool, *queries: str) -> list[Match]:
    with open_store(drawn / "index", extractor.identity, extractor.dimensions) as store:
        add_pictures(store, extractor, sorted((drawn / "references").iterdir()))
        found = Search(store, open_search(store), extractor, RULE, views=views).queries([drawn / q for q in queries])
    return found.pairs


def test_a_view_is_as_rare_as_a_query_of_its_own() -> None:
    distances = np.array([0.3, 0.7])
    counted = TAIL.as_whole(distances, VIEWS)
    assert np.allclose(TAIL.false_alarms(counted, 50), VIEWS * TAIL.false_alarms(distances, 50), rtol=1e-9)


@pytest.mark.parametrize("shape", [(8, 8), (9, 400), (300, 200)])
def test_views_are_five_crops_two_turns_and_the_negative(shape: tuple[int, int]) -> None:
    pixels: NDArray[np.uint8] = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    views = make_views(pixels, 16).transpose(0, 2, 3, 1)
    assert (len(CROPS), VIEWS, views.shape) == (5, 8, (8, 16, 16, 3))
    for view, other in zip(views[len(CROPS) :], (np.rot90(pixels), np.rot90(pixels, 3), 255 - pixels), strict=True):
        assert np.abs(view.astype(int) - resize_square(np.ascontiguousarray(other), 16)).max() <= 1
    if shape == (300, 200):  # the smallest crop
        middle = np.ascontiguousarray(pixels[97:203, 65:135])
        assert np.abs(views[0].astype(int) - resize_square(middle, 16)).mean() < 10


def test_turned_pictures_and_those_on_a_page_are_found_by_their_views(extractor: Extractor, drawn: Path) -> None:
    assert not search(extractor, drawn, False, "turned.png", "page.png")
    found = {
        (match.query.name, match.reference.name): match for match in search(extractor, drawn, True, "turned.png", "page.png")
    }
    assert ("turned.png", "3.png") in found and ("page.png", "5.png") in found
    assert found["turned.png", "3.png"].crop is None and found["page.png", "5.png"].crop in range(len(CROPS))


def test_what_a_view_finds_counts_as_further_away(extractor: Extractor, drawn: Path) -> None:
    """Each view is a chance of a false alarm; turned back, the picture is the reference itself."""
    (match,) = (one for one in search(extractor, drawn, True, "turned.png") if one.reference.name == "3.png")
    (counted,) = TAIL.as_whole(np.zeros(1), VIEWS)
    assert match.score == pytest.approx(-counted, abs=0.01) and counted > 0.05


def draw_screen(number: int) -> NDArray[np.uint8]:
    """A screen of text of 500 × 240 pixels; with a picture of 100 × 150 at (60, 200), number −1 for none."""
    screen = np.full((500, 240, 3), 236, np.uint8)
    screen[:50] = 40
    for line in (80, 120, 160, 400, 440):
        cv2.putText(screen, "some words of a chat", (10, line), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0))
    if number >= 0:
        screen[200:350, 60:160] = cv2.resize(draw_picture(np.random.default_rng(number), 240), (100, 150))
    return screen


def test_a_picture_on_a_screen_is_found_beside_screens_alike(extractor: Extractor, drawn: Path) -> None:
    """The whole is near to another screen, the picture in it to another picture."""
    box = find_picture(draw_screen(5))
    assert box is not None and np.allclose(box, (0.25, 0.4, 0.667, 0.7), atol=0.05)
    assert find_picture(draw_screen(-1)) is None
    Image.fromarray(draw_screen(-1)).save(drawn / "references" / "screen.png")
    Image.fromarray(draw_screen(5)).save(drawn / "screen.png")
    found = {match.reference.name: match.crop for match in search(extractor, drawn, True, "screen.png")}
    assert found.keys() == {"screen.png", "5.png"} and found["5.png"] == 0


def test_a_query_that_is_sure_is_searched_without_its_turns(extractor: Extractor, drawn: Path) -> None:
    """Turned, it is another reference."""
    with Image.open(drawn / "references" / "7.png") as picture:
        picture.rotate(90, expand=True).save(drawn / "references" / "7 turned.png")
    assert [match.reference.name for match in search(extractor, drawn, True, "again.jpg")] == ["7.png"]


def test_vectors_of_a_pictures_views_find_it_in_memory(extractor: Extractor, drawn: Path) -> None:
    turned = np.ascontiguousarray(np.rot90(draw_picture(np.random.default_rng(3), 240), -1))
    with open_store(drawn / "memory", extractor.identity, extractor.dimensions) as store:
        add_pictures(store, extractor, sorted((drawn / "references").iterdir()))
        lookup = Search(store, open_search(store), extractor, RULE)
        whole = extractor.extract_picture(turned)
        assert lookup.near(whole, [b""]) == [[]]
        (found,) = lookup.near(whole, [b""], [embed_views_of(extractor, turned)])
    assert found[0].reference.name == "3.png"


def test_features_of_a_crop_lie_in_the_whole_picture() -> None:
    picture = draw_picture(np.random.default_rng(1), 600)
    whole = local_features(picture)
    evidence = verify(crop_features(picture, (0.4, 0.4, 1.0, 1.0), whole), whole)
    assert evidence is not None and evidence.homography is not None
    places = np.array([[0.5, 0.5, 1], [0.9, 0.65, 1]])
    mapped = places @ evidence.homography.T
    assert np.allclose(mapped[:, :2] / mapped[:, 2:], places[:, :2], atol=0.004) and evidence.query_region[0] >= 0.39


def test_a_page_is_confirmed_by_the_crop_that_found_it(tmp_path: Path) -> None:
    """The whole page's strongest features are those of what surrounds the picture."""
    picture = draw_picture(np.random.default_rng(5), 200)
    rng = np.random.default_rng(0)
    page = np.full((900, 900, 3), 255, np.uint8)
    for line in range(20, 900, 45):
        words = "".join(rng.choice([*"abcdefghkmnopstuvxz "], 90))
        cv2.putText(page, words, (5, line), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0))
    page[330:570, 350:543] = 255
    page[350:550, 380:513] = picture
    Image.fromarray(page).save(tmp_path / "page.png")
    Image.fromarray(picture).save(tmp_path / "picture.png")
    pair = Match(tmp_path / "page.png", tmp_path / "picture.png")
    assert PairJudge().verify_all([pair], [CHANGES])[0].evidence is None
    evidence = PairJudge().verify_all([replace(pair, crop=0)], [CHANGES])[0].evidence
    assert evidence is not None and min(evidence.query_region) > 0.3 and max(evidence.query_region) < 0.7


@pytest.mark.parametrize(
    ("rule", "pictures", "asked", "verified", "views", "left_out"),
    [
        (RULE, MOST_VERIFIED, (None, None), 10, True, False),
        (RULE, MOST_VERIFIED, (None, False), 10, False, False),
        (Rule(-1.0, None, 0.001, 10), MOST_VERIFIED, (None, None), 10, False, False),
        (RULE, MOST_VERIFIED + 1, (None, None), 0, False, True),
        (RULE, MOST_VERIFIED + 1, (None, True), 0, True, True),
        (RULE, MOST_VERIFIED + 1, (5, None), 5, False, False),
        (RULE, MOST_VERIFIED + 1, (0, None), 0, False, False),
        (Rule(None, None, 0.001, 10), 100, (None, None), 0, False, False),
    ],
)
def test_the_number_of_pictures_decides_what_nobody_asked_for(
    rule: Rule, pictures: int, asked: tuple[int | None, bool | None], verified: int, views: bool, left_out: bool
) -> None:
    chosen = choose_effort(rule, pictures, *asked)
    assert chosen[:2] == (verified, views) and ("--verify --views" in chosen[2]) is left_out


def test_views_need_a_tail() -> None:
    with pytest.raises(UserError, match="--unrelated"):
        choose_effort(Rule(-1.0, None, 0.001, 10), 100, None, True)


@pytest.fixture(scope="module")
def first_rows() -> Extractor:
    def embed(squares: Squares) -> NDArray[np.float32]:
        return np.asarray(squares[16][:, :, :2].reshape(-1, 96), np.float32)

    return Extractor([Embedder((16,), 96, embed, nullcontext)], EmbeddingSettings(workers=2), lambda v: v, 96, "first rows")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three pictures of a camera's size, whose scales are reduced alike for all that is made of them, and one that is broken."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(3):
        Image.fromarray(draw_picture(np.random.default_rng(number), 1600)).save(folder / f"{number}.jpg")
    (folder / "broken.jpg").write_bytes((folder / "0.jpg").read_bytes()[:500])
    return sorted(folder.iterdir())


def assert_same_features(one: Features, other: Features) -> None:
    assert np.array_equal(one.points, other.points) and np.array_equal(one.histograms, other.histograms)
    assert (one.width, one.height) == (other.width, other.height)


def test_what_is_made_when_pictures_are_decoded_is_what_is_made_of_files(
    first_rows: Extractor, pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "index", first_rows.identity, 96) as store, keep_looks(first_rows, tmp_path) as kept:
        assert kept.look is None
        kept.ahead = True
        assert add_pictures(store, first_rows, pictures, kept.look) == (3, [])
        monkeypatch.setattr(looking, "find_features", lambda path: pytest.fail(f"{path} was made before"))
        for path, views in zip(pictures, embed_views(first_rows, pictures), strict=True):
            if path.name == "broken.jpg":
                assert views is None and kept.views(path) is None
            else:
                assert np.array_equal(np.asarray(kept.views(path)), np.asarray(views))
                assert_same_features(kept.features(path), find_features(path))


@pytest.mark.parametrize(("most", "made_again"), [(MAX_BYTES, []), (1, ["1.jpg"]), (0, ["0.jpg", "1.jpg"])])
def test_features_are_found_once_up_to_a_number_of_bytes(
    most: int, made_again: list[str], first_rows: Extractor, pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def find(path: Path) -> Features:
        asked.append(path.name)
        return find_features(path)

    monkeypatch.setattr(looking, "find_features", find)
    with keep_looks(first_rows, tmp_path, most) as kept:
        for _ in range(2):
            for path in pictures[:2]:
                assert_same_features(kept.features(path), find_features(path))
                assert kept.views(path) is None
        with pytest.raises(ImageError):
            kept.features(pictures[3])
    assert asked == ["0.jpg", "1.jpg", *made_again, "broken.jpg"] and not any(tmp_path.iterdir())


def test_a_gpu_embeds_views_apart(pictures: list[Path], tmp_path: Path) -> None:
    network = Embedder((16,), 96, lambda squares: pytest.fail("asked"), None)
    on_gpu = Extractor([network], EmbeddingSettings(), lambda v: v, 96, "")
    with keep_looks(on_gpu, tmp_path) as kept:
        kept.ahead = True
        assert kept.look is None
