"""Matching folders with a small checkpoint: copies found, known contents not embedded again, kills survived."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.procedural import write_pictures
from image_copies.data.sources.discovery import discover
from image_copies.matching.commands import searching
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.matching.index import filling
from image_copies.matching.index.filling import add_pictures, forget_missing
from image_copies.matching.index.search import open_search
from image_copies.matching.index.store import Store, digest_of, open_store, read_content, stored_files, vectors_by_digest
from image_copies.matching.matches import Match, Rule
from image_copies.matching.pairs import PairJudge
from image_copies.matching.results import hold_results_folder
from image_copies.matching.search import Search
from image_copies.matching.verification.features import CHANGES, local_features
from image_copies.matching.views import Looks, find_features
from image_copies.models.inference import embedders
from image_copies.models.inference.embedders import Embedder, Squares
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.match import main
from image_copies.pipeline.tools import networks

RULE = Rule(score=-0.05, tail=None, rate=0.001, most=5)


def below(folder: Path) -> list[Path]:
    return discover([folder]).paths


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    list(write_pictures(folder / "references", "R", 8, seed=1, workers=1))
    list(write_pictures(folder / "queries", "Q", 1, seed=2, workers=1))
    (folder / "references" / "broken.jpg").write_bytes(b"no image")
    first, second = sorted((folder / "references").glob("R*"))[:2]
    shutil.copy(first, folder / "queries" / "same <b>.jpg")
    with Image.open(second) as image:
        image.save(folder / "queries" / "again.jpg", quality=95)
    return folder


@pytest.fixture
def pictures(drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """references/ with 8 pictures and one that cannot be read; queries/ with a copy, a re-encoded copy and another picture."""
    shutil.copytree(drawn, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def extractor(checkpoint: Path) -> Extractor:
    """The small network, which takes batches of four pictures."""
    opened = checkpoint_extractor(checkpoint)
    return replace(opened, settings=opened.settings.model_copy(update={"batch_size": 4}))


@pytest.fixture
def store(pictures: Path, extractor: Extractor) -> Iterator[Store]:
    with open_store(pictures / "index", extractor.identity, extractor.dimensions) as opened:
        yield opened


def run_match(*arguments: object) -> int:
    return main(list(map(str, arguments)))


@pytest.fixture
def search(pictures: Path, checkpoint: Path) -> Callable[..., int]:
    """Search queries/, in references/ where nothing else is given."""

    def run(*options: object, within: tuple[object, ...] = ("--references", "references")) -> int:
        return run_match("--checkpoint", checkpoint, "--queries", "queries", *within, *options)

    return run


def test_copies_are_found_by_content_and_by_sight(pictures: Path, extractor: Extractor, store: Store) -> None:
    queries = below(pictures / "queries")
    assert add_pictures(store, extractor, below(pictures / "references")) == (8, [])
    assert add_pictures(store, extractor, below(pictures / "references")) == (0, [])
    shutil.copy(pictures / "references" / "R000003.jpg", pictures / "references" / "double.jpg")
    assert add_pictures(store, extractor, below(pictures / "references")) == (0, [])
    matches = Search(store, open_search(store), extractor, RULE).queries(queries)
    found = {(match.query.name, match.reference.name) for match in matches.pairs}
    assert {("same <b>.jpg", "R000000.jpg"), ("again.jpg", "R000001.jpg")} <= found
    assert matches.pairs[0].score == 0 and matches.references == 8
    assert [path.name for path in matches.unreadable] == ["broken.jpg"]
    (pictures / "references" / "R000000.jpg").unlink()
    forget_missing(store, below(pictures / "references"))
    assert len(stored_files(store)) == 9
    matches = Search(store, open_search(store), extractor, RULE).queries(queries)
    assert "R000000.jpg" not in {match.reference.name for match in matches.pairs}


def test_within_one_folder_each_pair_is_listed_once(pictures: Path, extractor: Extractor, store: Store) -> None:
    shutil.copytree(pictures / "references", pictures / "all")
    shutil.copytree(pictures / "queries", pictures / "all", dirs_exist_ok=True)
    add_pictures(store, extractor, below(pictures / "all"))
    matches = Search(store, open_search(store), extractor, RULE).within()
    pairs = [frozenset((match.query.name, match.reference.name)) for match in matches.pairs]
    assert len(pairs) == len(set(pairs)) and all(len(pair) == 2 for pair in pairs)
    assert {frozenset(("same <b>.jpg", "R000000.jpg")), frozenset(("again.jpg", "R000001.jpg"))} <= set(pairs)
    assert [path.name for path in matches.unreadable] == ["broken.jpg"]


def test_a_query_that_is_a_reference_itself_takes_no_place(pictures: Path, extractor: Extractor, store: Store) -> None:
    add_pictures(store, extractor, below(pictures / "references"))
    nearest = Rule(score=None, tail=None, rate=0.001, most=1)
    matches = Search(store, open_search(store), extractor, nearest).queries(below(pictures / "references"))
    assert len(matches.pairs) == len({match.query for match in matches.pairs}) == 8
    assert all(match.query != match.reference for match in matches.pairs)


@pytest.mark.parametrize(("kept", "again"), [(2**20, False), (0, True)])
def test_a_file_is_read_once_unless_it_is_too_large_to_be_kept(
    pictures: Path, extractor: Extractor, store: Store, monkeypatch: pytest.MonkeyPatch, kept: int, again: bool
) -> None:
    read: list[Path] = []

    def count(path: Path) -> bytes:
        read.append(path)
        return path.read_bytes()

    monkeypatch.setattr(embedders, "read_or_nothing", count)
    monkeypatch.setattr(filling, "MOST_KEPT_BYTES", kept)
    paths = below(pictures / "references")
    shutil.copy(paths[0], paths[0].with_name("again.jpg"))
    added = add_pictures(store, extractor, [*paths, paths[0].with_name("again.jpg")])
    assert added == (len(paths) - 1, []) and len(read) == (len(paths) if again else 0)
    expected = extractor.extract_all(ImageSet([str(path) for path in paths], paths))
    found = vectors_by_digest(store, [digest_of(path) for path in paths])
    for path, vector, unreadable in zip(paths, expected.vectors, expected.unreadable, strict=True):
        stored = found[digest_of(path)]
        assert unreadable if stored is None else np.array_equal(stored, vector)


def test_a_gpu_has_its_next_batch_before_one_is_read_and_committed(pictures: Path, extractor: Extractor, store: Store) -> None:
    (network,) = extractor.networks
    done: list[str] = []

    def launch(squares: Squares) -> Callable[[], NDArray[np.float32]]:
        done.append("launch")

        def wait() -> NDArray[np.float32]:
            done.append("read")
            return network.embed(squares)

        return wait

    played = replace(extractor, networks=[Embedder(network.sizes, network.dimensions, network.embed, None, launch)])
    assert add_pictures(store, played, below(pictures / "references")) == (8, [])
    assert done == ["launch", "launch", "read", "launch", "read", "read"]


def test_a_file_that_cannot_be_opened_stops_no_one(
    pictures: Path, extractor: Extractor, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = pictures / "references" / "R000002.jpg"

    def denied(path: Path, most: int) -> tuple[bytes, bytes | None]:
        return read_content(path if path.name != closed.name else path / "denied", most)

    monkeypatch.setattr("image_copies.matching.index.store.read_content", denied)
    assert add_pictures(store, extractor, below(pictures / "references")) == (7, [closed])
    assert closed not in stored_files(store)


def test_the_command_writes_csv_and_gallery(
    pictures: Path, search: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    search("--threshold", "-0.05", "--no-verify")
    table = pd.read_csv(pictures / "matches" / "matches.csv")
    known = ["query", "reference", "score", "expected_false_alarms", "class", "reason", "certainty", "series", "sharpest"]
    assert list(table.columns) == known
    assert set(table["class"]) <= {"same file", "certain", "likely", "same scene"} and table["class"].iloc[0] == "same file"
    assert np.all(np.diff(table["score"]) <= 0) and table["score"].iloc[0] == 0
    page = " ".join(page.read_text() for page in sorted((pictures / "matches" / "gallery").glob("*.html")))
    assert "same &lt;b&gt;.jpg" in page and "<b>.jpg" not in page
    assert f"relative to <b>{pictures}</b>" in page and "query<br>queries/again.jpg<" in page
    capsys.readouterr()
    search("--threshold", "-0.05", "--no-verify")
    assert "9 images, 0 of them embedded\n" in capsys.readouterr().out


def test_a_kept_index_is_added_to_searched_and_removed_from(
    pictures: Path, checkpoint: Path, search: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    index = ["--checkpoint", checkpoint, "--index", "kept"]
    of_index = partial(search, "--threshold", "-0.05", within=("--index", "kept"))
    run_match("add", "references", *index)
    assert "9 images, 8 of them embedded\n" in capsys.readouterr().out
    of_index("--json")
    assert '"queries": 3, "references": 8, "threshold": -0.05' in capsys.readouterr().out
    run_match("remove", "references/R000000.jpg", "elsewhere", *index[2:])
    reported = capsys.readouterr().out
    assert "removed 1 file" in reported and "elsewhere is not in it" in reported and "R000000" not in reported
    (pictures / "references" / "link.jpg").symlink_to("R000001.jpg")
    run_match("add", "references", *index)
    run_match("remove", "references/link.jpg", *index[2:])
    assert "removed 1 file" in capsys.readouterr().out
    shutil.move("references", "moved")
    of_index()
    run_match("remove", "references", *index[2:])
    assert "removed 9 files" in capsys.readouterr().out


def test_the_outputs_own_index_follows_another_checkpoint(pictures: Path, checkpoint: Path) -> None:
    save_descriptor(Path("other.safetensors"), Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8)), 32, {})
    folders = ["--queries", "queries", "--references", "references", "--threshold", "-0.05"]
    for network in (checkpoint, "other.safetensors"):
        run_match("--checkpoint", network, *folders)
        assert {"again.jpg"} <= {Path(name).name for name in pd.read_csv("matches/matches.csv")["query"]}
    with pytest.raises(UserError, match="another run or checkpoint"):
        run_match("--checkpoint", checkpoint, "--index", "matches/index", "--queries", "queries")


def test_a_gallery_takes_the_place_of_a_gallery_only(search: Callable[..., int]) -> None:
    for _ in range(2):
        search("--threshold", "-0.05", within=())
    own = Path("album/gallery/summer.jpg")
    own.parent.mkdir(parents=True)
    own.touch()
    with pytest.raises(UserError, match=r"left alone\. Choose another --output"):
        search("--threshold", "-0.05", "--output", "album", within=())
    assert own.is_file() and not Path("album/index").exists()


def test_vectors_that_are_not_finite_never_reach_the_index(pictures: Path, extractor: Extractor, store: Store) -> None:
    network = extractor.networks[0]

    def broken(squares: Squares) -> NDArray[np.float32]:
        return np.full_like(network.embed(squares), np.nan)

    extractor = replace(extractor, networks=[replace(network, embed=broken)])
    with pytest.raises(UserError, match=r"vector of .*references/.* is not finite"):
        add_pictures(store, extractor, below(pictures / "references"))
    assert not stored_files(store)


def test_two_do_not_write_into_one_folder(search: Callable[..., int]) -> None:
    with hold_results_folder(Path("matches")), pytest.raises(UserError, match=r"another search is writing into matches"):
        search("--threshold", "-0.05")
    search("--threshold", "-0.05")


def test_without_a_threshold_the_nearest_are_listed_and_a_folder_calibrates_one(
    search: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    list(write_pictures(Path("unrelated"), "U", 40, seed=5, workers=1))
    search()
    assert " nearest pairs listed" in capsys.readouterr().out
    search("--unrelated", "unrelated", "--false-alarms", "0.01", "--no-verify")
    assert (pd.read_csv("matches/matches.csv")["expected_false_alarms"] <= 0.01).all()


def test_what_ships_is_used_where_no_run_is_named(pictures: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []

    def recorded(path: Path) -> Extractor:
        opened.append(path)
        return checkpoint_extractor(checkpoint)

    monkeypatch.setattr(networks, "checkpoint_extractor", recorded)
    run_match("--queries", "queries", "--threshold", "-0.05")
    assert opened == [SHIPPED] and Path("matches/matches.csv").is_file()
    Path("runs/mine").mkdir(parents=True)
    Path("runs/mine/recipe.yaml").touch()
    Path("runs/mine/run.json").write_text("{}")
    with pytest.raises(UserError):  # there is a run, unfinished as it is: it is not passed over in silence
        run_match("--queries", "queries", "--threshold", "-0.05")
    assert opened == [SHIPPED]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "x"], "the index is missing: give it with --index DIR"),
        (["--add", "x"], "there is no option --add"),
        (["add", "x", "--index", "i", "--verify"], "no option --verify"),
        ([], "give folders to search"),
        (["a.jpg"], "a.jpg does not exist"),
        (["--queries", "q", "--false-alarms", "2"], "between 0 and 1"),
        (["--queries", "q", "--threshold", "nan"], "at most 0"),
        (["--queries", "q", "--index", "i", "--references", "r"], "--references cannot be combined with --index"),
        (["--queries", "q", "--with", "none.onnx"], "no such ONNX file"),
        (["--queries", "q", "--checkpoint", "none.safetensors"], "no such checkpoint"),
        (["--queries", "q", "--run", "none"], "none is not a run"),
        (["--queries", "none"], "none does not exist. Name a folder"),
        (["--queries", "loop"], "loop is a link that leads nowhere"),
        (["--queries", "q/picture.jpg", "--to", "x"], "no option --to"),
        (["--queries", "q", "--merge-metadata"], "no option --merge-metadata"),
        (["q", "--show", "x.png"], "give it with two pictures"),
        (["q/picture.jpg", "r/picture.jpg", "--show", "x.gif"], "must end in .png or .jpg or .webp"),
        (["--queries", "q", "--verify", "-1"], "-1: give a whole number of at least 0"),
        (["q/picture.jpg"], "got one picture"),
        (["q/picture.jpg", "r/picture.jpg", "--no-verify"], "--no-verify is for searches"),
        (["--apply", "hardlink", "--to", "x"], "or replace --apply hardlink by --apply move"),
        (["--queries", "q", "--references", "empty"], "empty holds no image"),
        (["--queries", "q", "--output", "q/picture.jpg/below"], "--output q/picture.jpg/below cannot be made"),
        (["--queries", "q", "--index", "none"], "none holds no index"),
        (["remove", "q", "--index", "none"], "none holds no index"),
        (["--queries", "q", "--verify", "--no-verify"], "--no-verify: not allowed with argument --verify"),
        (["--queries", "q", "--keep", "biggest"], "--keep biggest: give largest, oldest, folder-order or path:PATTERN"),
        (["--keep", "largest", "q"], "--keep q: give largest, oldest, folder-order or path:PATTERN, and folders before --keep"),
        (["--apply", "move", "--undo"], "no option --undo"),
        (["--apply", "move", "--queries", "q"], "no option --queries"),
        (["--apply", "move"], "there is no plan"),
        (["--undo", "q"], "unrecognized arguments: q"),
        (["--queries", "@none.txt"], "cannot be read"),
        (["decide", "a.jpg", "copy"], "arguments are required: word"),
        (["decisions"], "there are no results of a search"),
        (["decide", "a.jpg", "b.jpg", "copy", "--index", "none"], "holds no index"),
        (["leakage", "q"], "at least two"),
        (["leakage", "q", "q/../q"], "at least two"),
        (["leakage", "q", "r", "--queries", "q"], "no option --queries"),
    ],
)
def test_wrong_options_give_one_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("q", "r", "empty"):
        Path(name).mkdir()
    for name in ("q", "r"):
        (Path(name) / "picture.jpg").touch()
    Path("loop").symlink_to("loop")
    with pytest.raises((UserError, SystemExit)) as refused:
        run_match(*arguments)
    assert message in f"{refused.value}{capsys.readouterr().err}"
    assert not Path("matches").exists() and not Path("none").exists()


def test_a_run_whose_data_set_was_moved_is_used_with_its_new_place(small_run: Path, pictures: Path) -> None:
    shutil.copytree(small_run, "run")
    Path("run/run.json").write_text(json.dumps({"data": str(pictures / "gone")}))
    arguments = ["--run", "run", "--queries", "queries", "--references", "references", "--false-alarms", "0.01"]
    with pytest.raises(UserError, match="name its new place: --data"):
        run_match(*arguments)
    run_match(*arguments, "--data", small_run.parent / "data")
    assert Path("matches/plan.csv").is_file()


@pytest.mark.parametrize("stage", ["_verify_pairs", "read_facts", "_judge_pairs", "make_groups", "write_results"])
def test_files_that_vanish_during_a_search_stop_no_one(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stage: str
) -> None:
    """The compression of one was measured, and a part of another looked at, as if they had to be there."""
    for path in below(pictures / "references")[:-1]:
        with Image.open(path) as image:
            image.crop((4, 4, image.width - 8, image.height)).save(pictures / "queries" / f"{path.stem} small.jpg", quality=80)
    work = getattr(searching, stage)

    def lose_files(*arguments: Any, **named: Any) -> Any:
        for path in below(pictures / "queries")[::2]:
            path.unlink()
        return work(*arguments, **named)

    monkeypatch.setattr(searching, stage, lose_files)
    monkeypatch.setattr(Looks, "look", None)  # as of pictures for which it has no more room
    assert run_match("queries", "references") == 0
    assert Path("matches/plan.csv").is_file() and " to look at, in " in capsys.readouterr().out


def test_a_query_that_has_gone_is_not_verified(pictures: Path) -> None:
    """Its features are known, and a part of it would be looked at."""
    path, other = pictures / "gone.jpg", pictures / "references" / "R000000.jpg"
    flat = local_features(np.full((64, 64, 3), 128, np.uint8))
    pairs, changes = [Match(path, other, crop=0)] * 2, [CHANGES, ()]
    judge = PairJudge(find=lambda found: flat if found == path else find_features(found))
    assert [pair.evidence for pair in judge.verify_all(pairs, changes)] == [None, None]
