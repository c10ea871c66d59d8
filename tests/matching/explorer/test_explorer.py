"""The explorer's answers are the run's own, and nothing that is sent can harm it."""

import asyncio
import errno
import io
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi.testclient import TestClient
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import draw_picture
from image_copies.matching.explorer.answers import Explorer, answer, open_folder_explorer
from image_copies.matching.explorer.edits import EDITS, apply_edit, list_edits
from image_copies.matching.explorer.routes import explorer_router
from image_copies.matching.explorer.uploads import MAX_PICTURES, Uploads
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.web import guard
from image_copies.matching.web.app import make_app, open_listener
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.explore import main
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.tools.export import export_joined
from image_copies.pipeline.tools.run_explorer import open_run_explorer
from image_copies.pipeline.tools.run_extractor import run_extractor

TOP = Path(__file__).parents[3]
BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def run(small_run: Path) -> Run:
    return Run(small_run, read_recipe(small_run / "recipe.yaml"), small_run.parent / "data")


@pytest.fixture(scope="module")
def explorer(run: Run) -> Explorer:
    return open_run_explorer(run, 0.01)


@pytest.fixture
def client(explorer: Explorer) -> TestClient:
    return TestClient(make_app(explorer_router(explorer)), base_url="http://127.0.0.1")


def encoded(image: Image.Image, form: str = "PNG") -> bytes:
    target = io.BytesIO()
    image.save(target, form)
    return target.getvalue()


def send(client: TestClient, content: bytes) -> Any:
    return client.post("/api/pictures", content=content, headers=BYTES)


def test_an_answer_is_what_the_run_would_say(explorer: Explorer, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "query.png"  # no JPEG: those are decoded at a scale that follows the network's size
    Image.open(run.data / "query_images" / "Q000003.jpg").save(path)
    given = answer(explorer, decode_rgb(path), None, 0.5, 0)
    extractor = run_extractor(run)
    query = extractor.extract_all(ImageSet(["q"], [path])).vectors
    moved = extractor.normalize(query)[0].astype(np.float64)
    scores = -((moved - explorer.references.vectors.astype(np.float64)) ** 2).sum(axis=1)
    rows = [explorer.references.ids.index(item["id"]) for item in given["nearest"]]
    own = [place for place, item in enumerate(given["nearest"]) if not item["view"]]  # the others are nearer to a crop or a turn
    best = np.argsort(-scores, kind="stable")
    assert own and given["nearest"][own[0]]["id"] == explorer.references.ids[best[0]]
    assert np.allclose([given["nearest"][place]["score"] for place in own], scores[[rows[place] for place in own]], atol=1e-5)
    assert all(item["score"] >= scores[row] - 1e-5 for item, row in zip(given["nearest"], rows, strict=True))
    plain = -((query[0].astype(np.float64) - explorer.references.vectors.astype(np.float64)) ** 2).sum(axis=1)
    assert np.allclose([item["unnormalized"] for item in given["nearest"]], plain[rows], atol=1e-5)
    done = given["normalization"]
    assert done["method"] == "method2" and done["first"][0]["id"] == explorer.references.ids[int(plain.argmax())]
    assert done["moved"] == pytest.approx(float(np.linalg.norm(moved - query[0])), abs=1e-5)
    training = extractor.normalizer.training.vectors @ query[0]  # type: ignore[union-attr]
    assert done["similarity"] == pytest.approx(max(0.0, float(np.sort(training)[-3:].mean())), abs=1e-5)
    threshold = explorer.threshold()
    assert threshold is not None and all(item["copy"] == (item["score"] >= threshold) for item in given["nearest"])


def test_turned_pictures_are_found_and_copies_are_judged_by_their_pixels(tmp_path: Path) -> None:
    for seed in range(6):
        Image.fromarray(draw_picture(np.random.default_rng(seed), 240)).save(tmp_path / f"{seed}.png")
    opened = open_folder_explorer(checkpoint_extractor(SHIPPED), "drawn", find_images(tmp_path), 0.001)
    picture = decode_rgb(tmp_path / "3.png")
    first, *others = answer(opened, picture, None, 0.5, 0)["nearest"]
    assert (first["id"], first["view"], first["copy"]) == ("3", "", True) and first["class"] in ("same file", "certain")
    assert not any("class" in other for other in others)
    first, *others = answer(opened, np.ascontiguousarray(np.rot90(picture)), None, 0.5, 0)["nearest"]
    assert (first["id"], first["copy"], first["class"]) == ("3", True, "certain") and first["view"] in ("", "turn")


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_can_be_shown_and_shown_again(explorer: Explorer, name: str) -> None:
    image = decode_rgb(explorer.pictures["query"].paths[0])
    first, again, other = (apply_edit(image, name, 0.7, draw, explorer.others) for draw in (0, 0, 1))
    assert np.array_equal(first.image, again.image) and first.record == again.record
    assert first.record[0]["edit"] == name
    grade = next(row["grade"] for row in list_edits(explorer.others) if row["name"] == name)
    assert (first.record == other.record) == (grade == "none")


@pytest.mark.parametrize("name", ["blur_or_sharpen", "opacity", "overlay_emoji", "double_compression"])
def test_the_slider_makes_edits_harder(explorer: Explorer, name: str) -> None:
    image = decode_rgb(explorer.pictures["query"].paths[1])

    def change(intensity: float) -> float:
        shown = apply_edit(image, name, intensity, 0, explorer.others).image
        small = np.asarray(Image.fromarray(shown).resize(image.shape[1::-1]), np.float64)
        return float(np.abs(small - image).mean())

    assert change(0.05) < change(0.95)


def test_edits_that_paste_need_images(explorer: Explorer) -> None:
    image = decode_rgb(explorer.pictures["query"].paths[0])
    with pytest.raises(UserError, match="pastes other images"):
        apply_edit(image, "overlay_image", 0.5, 0, None)
    assert [row["name"] for row in list_edits(None) if not row["usable"]] == [
        edit.name for edit in EDITS.values() if edit.needs_overlay
    ]


def test_upload_edit_answer(client: TestClient, run: Run) -> None:
    about = client.get("/api/about").json()
    assert about["references"] == 15 and about["threshold"] < 0 and len(about["edits"]) == len(EDITS) + 1
    picture = send(client, (run.data / "reference_images" / "R000004.jpg").read_bytes()).json()["picture"]
    for edit in (None, "composition", "rotate"):
        question = {"picture": picture, "edit": edit, "intensity": 0.8, "draw": 3}
        answered = client.post("/api/answers", json=question).json()
        assert len(answered["nearest"]) == 12 and answered["picture"].startswith("data:image/jpeg;base64,")
        assert edit != "rotate" or answered["record"][0]["edit"] == "rotate"
    picked = client.post("/api/picks/Q000002").json()["picture"]
    assert client.post("/api/answers", json={"picture": picked}).status_code == 200
    shown = client.get("/api/pictures/reference/R000004")
    assert shown.headers["content-type"] == "image/jpeg" and Image.open(io.BytesIO(shown.content)).size <= (240, 240)
    for page in ("/", "/style.css", "/page/explorer.js", "/page/explorer.css"):
        assert client.get(page).status_code == 200
        assert "script-src 'self'" in client.get(page).headers["content-security-policy"]


def test_training_vectors_without_a_picture_are_not_asked_for(explorer: Explorer, run: Run) -> None:
    """Those that a descriptor brings along were: the page got status 404."""
    training = explorer.pictures["training"]
    few = replace(explorer, pictures=explorer.pictures | {"training": training.select(training.ids[::2])})
    client, seen = TestClient(make_app(explorer_router(few)), base_url="http://127.0.0.1"), set[bool]()
    for path in find_images(run.data / "query_images").paths:
        picture = send(client, path.read_bytes()).json()["picture"]
        for item in client.post("/api/answers", json={"picture": picture}).json()["normalization"]["training"]:
            seen.add(item["shown"])
            assert (client.get(f"/api/pictures/training/{item['id']}").status_code == 200) == item["shown"]
    assert seen == {True, False}


SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"no image at all", "is not an image"),
        (SVG, "is not an image"),
        (encoded(Image.effect_noise((90, 90), 60))[:3000], "is damaged"),
        (encoded(Image.new("1", (20_000, 10_000))), "larger than 100,000,000 pixels"),
        (encoded(Image.new("RGB", (64, 64)), "EPS"), "is not an image"),
        (encoded(Image.new("RGB", (3, 900))), "short side must be at least 8"),
    ],
)
def test_hostile_uploads_get_a_message(client: TestClient, content: bytes, message: str) -> None:
    response = send(client, content)
    assert response.status_code == 400
    assert message in response.json()["message"]
    assert str(TOP) not in response.text and "<bytes>" not in response.text
    assert client.get("/api/about").status_code == 200


def test_too_large_and_endless_requests_are_not_read(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_PICTURE_BYTES", 1000)
    assert send(client, bytes(1001)).status_code == 413
    assert client.post("/api/answers", content=b" " * 1001, headers={"content-type": "application/json"}).status_code == 413
    endless = client.post("/api/pictures", content=iter([b"x"] * 10), headers=BYTES)
    assert endless.status_code == 411 and "Content-Length" in endless.json()["message"]


def test_what_is_too_large_gets_the_pages_message(client: TestClient) -> None:
    response = send(client, bytes(33 * 2**20))
    assert response.status_code == 413 and response.json() == {"message": "The file is larger than 32 MB."}
    question = client.post("/api/answers", content=b" " * 2**17, headers={"content-type": "application/json"})
    assert question.status_code == 413 and question.json()["message"]


@pytest.fixture
def served(explorer: Explorer) -> Iterator[str]:
    """The explorer as explore.py serves it, with requests over sockets."""
    with open_listener(0) as door:
        server = uvicorn.Server(uvicorn.Config(make_app(explorer_router(explorer)), log_level="critical"))
        thread = threading.Thread(target=server.run, args=([door],))
        thread.start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def upload(address: str, content: bytes) -> tuple[int, dict[str, str]]:
    request = urllib.request.Request(f"{address}/api/pictures", content, BYTES)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_many_uploads_at_once_all_arrive(served: str) -> None:
    """45 of 100 were refused, without the page's message."""
    pictures = [encoded(Image.new("RGB", (64, 64), (number, 0, 0))) for number in range(100)]
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(upload, [served] * 100, pictures))
    assert {status for status, _ in answers} == {200} and len({answer["picture"] for _, answer in answers}) == 100


def test_who_sends_all_before_reading_is_answered(served: str) -> None:
    """The connection was reset, with most of what was sent unread."""
    assert upload(served, bytes(33 * 2**20)) == (413, {"message": "The file is larger than 32 MB."})


def test_more_than_can_wait_are_asked_to_come_again(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_CONCURRENT", 0)
    status, answer = upload(served, b"x")
    assert status == 503 and "Send it again" in answer["message"]


@pytest.mark.parametrize(("limit", "sent"), [("MAX_ARRIVAL_SECONDS", 1), ("MAX_SILENT_SECONDS", 2 * guard.SMALL_BYTES)])
def test_slow_senders_are_given_up_and_hold_up_nobody_for_long(
    served: str, monkeypatch: pytest.MonkeyPatch, limit: str, sent: int
) -> None:
    monkeypatch.setattr(guard, limit, 0.5)
    slow = [send_half(served, sent) for _ in range(guard.MAX_CONCURRENT_UPLOADS + 4)]
    assert upload(served, encoded(Image.new("RGB", (64, 64))))[0] == 200
    assert b" 408 " in slow[0].recv(100)
    for connection in slow:
        connection.close()


def test_half_sent_pictures_hold_up_nobody(served: str) -> None:
    """The next picture waited until they were given up."""
    slow = [send_half(served, 1000) for _ in range(20)]
    started = time.monotonic()
    assert upload(served, encoded(Image.new("RGB", (64, 64))))[0] == 200
    assert time.monotonic() - started < guard.MAX_SILENT_SECONDS
    for connection in slow:
        connection.close()


def send_half(address: str, sent: int) -> socket.socket:
    """Open a connection and send so many bytes of a picture that has twice as many."""
    host, port = address.removeprefix("http://").split(":")
    lines = ("POST /api/pictures HTTP/1.1", f"Host: {host}:{port}", f"Content-Type: {BYTES['content-type']}")
    connection = socket.create_connection((host, int(port)))
    connection.sendall("\r\n".join((*lines, f"Content-Length: {2 * sent}", "", "")).encode() + bytes(sent))
    return connection


def test_who_sends_more_than_was_said_is_refused(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_PICTURE_BYTES", 1000)
    client = TestClient(make_app(explorer_router(explorer)), base_url="http://127.0.0.1")
    answered = client.post("/api/pictures", content=iter([bytes(100)] * 100), headers=BYTES | {"content-length": "5"})
    assert answered.status_code == 413


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ({"picture": "../../etc/passwd"}, 400),
        ({"picture": "0" * 64}, 400),
        ({"picture": "0" * 65}, 422),
        ({"picture": "0" * 64, "intensity": 2}, 422),
        ({"picture": "0" * 64, "draw": -1}, 422),
        ({"picture": "0" * 64, "more": 1}, 422),
        ({}, 422),
    ],
)
def test_wrong_questions_get_a_message(client: TestClient, question: dict[str, object], status: int) -> None:
    response = client.post("/api/answers", json=question)
    assert response.status_code == status and response.json()["message"]


def test_unknown_edits_get_a_message(client: TestClient, run: Run) -> None:
    picture = send(client, (run.data / "query_images" / "Q000001.jpg").read_bytes()).json()["picture"]
    response = client.post("/api/answers", json={"picture": picture, "edit": "__class__"})
    assert response.status_code == 400 and "There is no edit" in response.json()["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/pictures/reference/..%2F..%2Frecipe.yaml",
        "/api/pictures/reference/%2e%2e/%2e%2e/run/recipe.yaml",
        "/api/pictures/elsewhere/R000001",
        "/page/..%2Fapp.py",
        "/page/%2e%2e/app.py",
    ],
)
def test_names_lead_to_no_file(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (404, 422)
    assert client.post("/api/picks/" + path.rsplit("/", 1)[1]).status_code in (400, 405)


def test_other_sites_are_not_answered(client: TestClient) -> None:
    assert client.get("/api/about", headers={"host": "evil.example"}).status_code == 400
    form = client.post("/api/pictures", content=b"x", headers={"content-type": "text/plain"})
    assert form.status_code == 400 and "octet-stream" in form.json()["message"]
    for origin in ("http://evil.example", "http://127.0.0.1.evil.example", "http://127.0.0.1:9", "null", "http://["):
        assert client.post("/api/picks/Q000002", headers={"origin": origin}).status_code == 403
    assert client.post("/api/picks/Q000002", headers={"origin": "http://127.0.0.1"}).status_code == 200
    assert "access-control-allow-origin" not in client.get("/api/about").headers
    assert client.get("/page/explorer.js").headers["cross-origin-resource-policy"] == "same-origin"
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site}
        assert client.post("/api/picks/Q000002", headers=headers).status_code == 403
        assert client.get("/api/pictures/reference/R000004", headers=headers).status_code == 403
    assert client.post("/api/picks/Q000002", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_page_that_is_closed_while_it_sends_is_no_error(explorer: Explorer) -> None:
    heads = {"host": "127.0.0.1", "content-type": BYTES["content-type"], "content-length": "1000"}
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": b"abc", "more_body": True}, {"type": "http.disconnect"}]
    request = {
        "type": "http",
        "method": "POST",
        "path": "/api/pictures",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in heads.items()],
    }

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return parts.pop(0) if len(parts) > 1 else parts[0]

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(make_app(explorer_router(explorer))(request, receive, send))
    assert [message.get("status") for message in sent] == [400, None]  # answered as a bad request, nothing raised


def test_a_removed_image_is_said(explorer: Explorer, tmp_path: Path) -> None:
    gone = ImageSet(["Q"], [tmp_path / "gone.jpg"])
    missing = Explorer(**{**vars(explorer), "pictures": dict.fromkeys(("reference", "training", "query"), gone)})
    client = TestClient(make_app(explorer_router(missing)), base_url="http://127.0.0.1")
    assert "cannot be read" in client.post("/api/picks/Q").json()["message"]
    assert client.get("/api/pictures/reference/Q").status_code == 404


def test_pictures_are_forgotten_in_order_of_use() -> None:
    pictures = Uploads()
    names = [pictures.add(encoded(Image.new("L", (16, 16), shade))) for shade in range(MAX_PICTURES)]
    pictures.get(names[0])
    pictures.add(encoded(Image.new("L", (16, 16), 200)))
    assert pictures.get(names[0]).shape == (16, 16, 3)
    with pytest.raises(UserError, match="Send the image again"):
        pictures.get(names[1])


def test_the_port_is_this_machines_alone() -> None:
    with open_listener(0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(UserError, match=rf"^port {port} of 127.0.0.1 is taken by another program. Give one from 1024 to"):
            open_listener(port)


def test_a_port_of_the_system_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may listen there."""

    class Refusing(socket.socket):
        def bind(self, address: Any) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(UserError, match=r"^port 80 of 127.0.0.1 is reserved for the system. Give one from 1024 to 65535"):
        open_listener(80)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "there is no run"),
        (["--false-alarms", "1.0"], "1.0: give a rate per query between 0 and 1"),
        (["--threshold", "abc"], "--threshold: abc: scores are −‖q − r‖², at most 0; give a number such as -0.5"),
        (["--port", "http"], "--port: http: give a port from 1024 to 65535"),
        (["--port", "70000"], "--port: 70000: give a port from 1024 to 65535"),
    ],
)
def test_wrong_options_give_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UserError, SystemExit)) as refused:
        main(["--port", "0", *options])
    assert message in f"{refused.value}{capsys.readouterr().err}"


def test_any_folder_can_be_explored_without_a_run(run: Run, tmp_path: Path) -> None:
    """With a descriptor in one file; its background has no pictures to show."""
    export_joined(run, tmp_path / "descriptor.safetensors")
    images = find_images(run.data / "reference_images")
    explorer = open_folder_explorer(checkpoint_extractor(tmp_path / "descriptor.safetensors"), "pictures", images, 0.01)
    given = answer(explorer, decode_rgb(images.paths[4]), None, 0.5, 0)
    assert given["nearest"][0]["id"] == images.ids[4] and given["threshold"] is not None
    assert given["normalization"] is None or given["normalization"]["training"] == []
