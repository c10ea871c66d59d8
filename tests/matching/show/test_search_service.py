"""Search over HTTP: the answers of the search itself, also while the index changes; nothing that is sent can harm it."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.procedural import draw_picture, write_pictures
from image_copies.data.sources.discovery import discover
from image_copies.matching.extractor import Extractor, checkpoint_extractor, make_rule
from image_copies.matching.index.filling import add_pictures
from image_copies.matching.index.store import open_store, remove_files, stored_files, vectors_by_digest
from image_copies.matching.matches import Rule
from image_copies.matching.show.service import SearchService, service_app
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.explore import check, make_parser
from image_copies.pipeline.match import main as run_match
from tests.pictures import encode
from tests.services import open_service, serve

BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def extractor(checkpoint: Path) -> Extractor:
    return checkpoint_extractor(checkpoint)


@pytest.fixture
def folder(tmp_path: Path, extractor: Extractor) -> Path:
    list(write_pictures(tmp_path / "pictures", "R", 6, seed=1, workers=1))
    open_service(tmp_path, extractor)
    return tmp_path


@pytest.fixture
def client(folder: Path, extractor: Extractor) -> Iterator[TestClient]:
    service = SearchService(folder / "index", extractor, Rule(None, None, 0.001, 3))
    with TestClient(service_app(service), base_url="http://127.0.0.1") as opened:
        yield opened


def names(answer: list[dict[str, object]]) -> list[str]:
    return [Path(str(match["reference"])).name for match in answer]


def search(client: TestClient, picture: Path | Image.Image, where: str = "/api/matches", **options: Any) -> list[dict[str, Any]]:
    content = picture.read_bytes() if isinstance(picture, Path) else encode(picture, **options)
    matches: list[dict[str, Any]] = client.post(where, content=content, headers=BYTES).json()["matches"]
    return matches


def shrink(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.resize((image.width * 3 // 4, image.height * 3 // 4))


def test_a_picture_and_its_vector_find_the_same(client: TestClient, folder: Path, extractor: Extractor) -> None:
    path = folder / "pictures" / "R000002.jpg"
    answered = search(client, path)
    assert names(answered)[0] == "R000002.jpg" and answered[0]["score"] == 0 and len(answered) == 3
    with open_store(folder / "index", extractor.identity, extractor.dimensions) as store:
        digests = stored_files(store)
        (vector,) = vectors_by_digest(store, [digests[path.resolve()]]).values()
    assert vector is not None
    (found,) = client.post("/api/vectors", json={"vectors": [vector.tolist()]}).json()["matches"]
    assert names(found) == names(answered) and found[0]["score"] == pytest.approx(0, abs=1e-9)
    assert names(search(client, Image.open(path)))[0] == "R000002.jpg"


def test_an_upload_that_copies_a_reference_is_refused(folder: Path, extractor: Extractor) -> None:
    text = (Path(__file__).parents[3] / "docs" / "matching.md").read_text(encoding="utf-8")
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "FastAPI" in block)
    assert len(block.splitlines()) <= 25
    service = SearchService(folder / "index", extractor, Rule(None, None, 0.001, 3))
    with serve(service_app(service)) as address:
        exec(compile(block, "docs/matching.md", "exec"), example := dict[str, Any]())
        example["SEARCH"] = f"{address}/api/matches"
        copy = encode(shrink(folder / "pictures" / "R000002.jpg"), "JPEG", quality=80)
        other = encode(Image.fromarray(draw_picture(np.random.default_rng(9), 300)))
        with TestClient(example["app"]) as uploads:
            refused, taken, broken = (
                uploads.post("/upload", content=content, headers=BYTES) for content in (copy, other, b"no picture")
            )
    assert refused.status_code == 409 and Path(refused.json()["detail"]["reference"]).name == "R000002.jpg"
    assert broken.status_code == 400 and "not an image" in broken.json()["detail"], broken.text
    assert taken.status_code == 200 and taken.json() == {"stored": len(other)}


def test_references_found_are_judged_by_their_pixels(client: TestClient, folder: Path) -> None:
    path = folder / "pictures" / "R000002.jpg"
    same = search(client, path)[0]
    assert (same["class"], same["certainty"]) == ("same file", 100)
    copy, *others = search(client, shrink(path))
    assert copy["class"] == "certain" and "agreement of" in copy["reason"] and all(o["class"] != "certain" for o in others)
    quick = search(client, shrink(path), "/api/matches?judged=false")
    assert [match["reference"] for match in quick] == [m["reference"] for m in (copy, *others)] and "class" not in quick[0]


def test_a_picture_gets_the_answer_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where only a crop, a turn or features find it, where the pixels alone are the same, and where a person decided."""
    shipped, folder, queries = checkpoint_extractor(SHIPPED), tmp_path / "pictures", tmp_path / "queries"
    for made in (folder, queries):
        made.mkdir()
    pictures = [draw_picture(np.random.default_rng(seed), 300) for seed in range(6)]
    for seed, picture in enumerate(pictures):
        Image.fromarray(picture).save(folder / f"{seed}.png")
    letters = np.random.default_rng(0).integers(0, 2, (*(side // 4 for side in pictures[5].shape[:2]), 1), np.uint8) * 255
    page = np.concatenate([pictures[5], letters.repeat(4, 0).repeat(4, 1).repeat(3, 2)], axis=1)
    made_of = {"page": page, "turned": np.rot90(pictures[3]), "negative": 255 - pictures[1], "same": pictures[2]}
    for name, picture in (
        made_of | {"other": draw_picture(np.random.default_rng(9), 300), "denied": pictures[4][:, ::-1]}
    ).items():
        Image.fromarray(picture).save(queries / f"{name}.png", compress_level=1)
    options = ["--checkpoint", str(SHIPPED), "--index", str(tmp_path / "index"), "--output", str(tmp_path / "found")]
    run_match(["add", str(folder), *options])
    run_match(["decide", str(queries / "denied.png"), str(folder / "4.png"), "not-a-copy", *options[2:4]])
    capsys.readouterr()
    run_match([*options, "--queries", str(queries), "--json"])
    found = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if line["type"] == "match"]
    service = SearchService(tmp_path / "index", shipped, make_rule(shipped))
    with TestClient(service_app(service), base_url="http://127.0.0.1") as opened:
        answered = {path: search(opened, path) for path in sorted(queries.iterdir())}
    said = ("reference", "class", "reason", "certainty", "inliers")
    assert {path.stem for path, matches in answered.items() if matches} == set(made_of)
    for path, matches in answered.items():
        expected = [match for match in found if match["query"] == str(path)]
        assert [[match.get(key) for key in said] for match in matches] == [[match.get(key) for key in said] for match in expected]


def test_changes_of_the_index_are_seen(client: TestClient, folder: Path, extractor: Extractor) -> None:
    assert client.get("/api/about").json()["references"] == 6
    path = folder / "pictures" / "R000001.jpg"
    with open_store(folder / "index", extractor.identity, extractor.dimensions) as store:
        remove_files(store, [path.resolve()])
    assert client.get("/api/about").json()["references"] == 5
    assert "R000001.jpg" not in names(search(client, path))


def test_what_is_wrong_is_refused_with_a_message(client: TestClient, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    short = client.post("/api/vectors", json={"vectors": [[1.0, 2.0]]}).json()["detail"]
    assert short == "Each vector must have 16 numbers. Send vectors of the index's network."
    refused = {1e39: 400, 1e300: 400, "1.0": 422, True: 422, None: 422}
    for number, status in refused.items():
        assert client.post("/api/vectors", json={"vectors": [[1.0] * 16, [number] * 16]}).status_code == status, number
    assert client.post("/api/vectors", json={"vectors": []}).status_code == 422
    assert client.post("/api/vectors", json={"vectors": [[1.0] * 16] * 1001}).status_code == 422
    assert [path for path in sorted(folder.rglob("*")) if path.suffix not in (".faiss", ".npy")] == [
        p for p in before if p.suffix not in (".faiss", ".npy")
    ]


def test_an_index_that_is_made_again_or_gone_is_no_end(client: TestClient, folder: Path, extractor: Extractor) -> None:
    body = {"vectors": [[1.0] + [0.0] * 15]}
    assert len(client.post("/api/vectors", json=body).json()["matches"][0]) == 3
    shutil.move(folder / "index", folder / "aside")
    gone = client.post("/api/vectors", json=body)
    assert gone.status_code == 400 and "holds no index" in gone.json()["detail"] and not (folder / "index").exists()
    with open_store(folder / "index", extractor.identity, extractor.dimensions) as store:
        add_pictures(store, extractor, discover([folder / "pictures" / "R000004.jpg"]).paths)
    (matches,) = client.post("/api/vectors", json=body).json()["matches"]
    assert names(matches) == ["R000004.jpg"]


def test_the_interface_is_described(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/api/about", "/api/matches", "/api/vectors"}
    assert "application/octet-stream" in paths["/api/matches"]["post"]["requestBody"]["content"]
    assert "/api/matches" in client.get("/").text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--serve"], "give one with --index"),
        ([], "nothing is to be shown"),
        (["--matches", "x", "--threshold=-1"], "goes with --serve"),
        (["--serve", "--index", "x", "--megapixels", "0"], "a whole number of at least 1"),
        (["--port", "http"], "--port: http: give a port from 1024 to 65535"),
        (["--port", "70000"], "--port: 70000: give a port from 1024 to 65535"),
        (["--false-alarms", "1.0"], "1.0: give a rate per query between 0 and 1"),
        (["--threshold", "abc"], "--threshold: abc: scores are −‖q − r‖², at most 0; give a number such as -0.5"),
        (["--serve", "--index", "x", "--matches", "m"], "not allowed with argument"),
        (["--checkpoint", "c"], "goes with --serve"),
        (["--serve", "--index", "x", "--threshold", "1"], "at most 0"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((UserError, SystemExit)) as refused:
        check(make_parser().parse_args(arguments))
    assert message in f"{refused.value}{capsys.readouterr().err}"
