"""Limits of the search service: nothing that is sent can harm it, and who is refused hears why."""

import asyncio
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.procedural import write_pictures
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.show import web
from image_copies.matching.show.service import SearchService, service_app
from image_copies.matching.show.web import open_listener
from tests.pictures import encode
from tests.services import open_service, serve

TOP = Path(__file__).parents[3]
BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def service(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> SearchService:
    folder = tmp_path_factory.mktemp("service")
    list(write_pictures(folder / "pictures", "R", 3, seed=1, workers=1))
    return open_service(folder, checkpoint_extractor(checkpoint))


@pytest.fixture
def client(service: SearchService) -> TestClient:
    return TestClient(service_app(service), base_url="http://127.0.0.1")


def send(client: TestClient, content: bytes) -> Any:
    return client.post("/api/matches", content=content, headers=BYTES)


SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"no image at all", "is not an image"),
        (SVG, "is not an image"),
        (encode(Image.effect_noise((90, 90), 60))[:3000], "is damaged"),
        (encode(Image.new("1", (20_000, 10_000))), "larger than 100,000,000 pixels"),
        (encode(Image.new("1", (9984, 9984))), "is 9984 x 9984, larger than 50,000,000 pixels"),
        (encode(Image.new("RGB", (64, 64)), "EPS"), "is not an image"),
        (encode(Image.new("RGB", (3, 900))), "short side must be at least 8"),
    ],
)
def test_hostile_uploads_get_a_message(client: TestClient, content: bytes, message: str) -> None:
    response = send(client, content)
    assert response.status_code == 400
    assert message in response.json()["detail"]
    assert str(TOP) not in response.text and "<bytes>" not in response.text
    assert client.get("/api/about").status_code == 200


def test_too_large_and_endless_requests_are_not_read(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_PICTURE_BYTES", 1000)
    assert send(client, bytes(1001)).status_code == 413
    assert client.post("/api/vectors", content=b" " * 1001, headers={"content-type": "application/json"}).status_code == 413
    other = client.post("/api/other", content=b" " * 2**17, headers={"content-type": "application/json"})
    assert other.status_code == 413 and "0.0625 MB" in other.json()["detail"]
    for claimed in ({}, {"content-length": "10", "transfer-encoding": "chunked"}):  # the second holds, whatever the first says
        endless = client.post("/api/matches", content=iter([b"x"] * 2000), headers=BYTES | claimed)
        assert endless.status_code == 411 and "Content-Length" in endless.json()["detail"]


@pytest.fixture
def served(service: SearchService) -> Iterator[str]:
    with serve(service_app(service)) as address:
        yield address


def upload(address: str, content: bytes) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(f"{address}/api/matches", content, BYTES)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_many_uploads_at_once_all_arrive(served: str) -> None:
    """45 of 100 were refused, without the page's message."""
    pictures = [encode(Image.new("RGB", (64, 64), (number, 0, 0))) for number in range(100)]
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(upload, [served] * 100, pictures))
    assert {status for status, _ in answers} == {200}


def test_who_sends_all_before_reading_is_answered(served: str) -> None:
    """The connection was reset, with most of what was sent unread."""
    assert upload(served, bytes(33 * 2**20)) == (413, {"detail": "What is sent is larger than 32 MB."})


def test_slow_senders_are_given_up_and_hold_up_nobody_for_long(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_ARRIVAL_SECONDS", 0.5)
    slow = [send_half(served, web.MAX_PICTURE_BYTES // 2) for _ in range(20)]
    assert upload(served, encode(Image.new("RGB", (64, 64))))[0] == 200
    assert b" 408 " in slow[0].recv(100)
    for connection in slow:
        connection.close()


def test_half_sent_pictures_hold_up_nobody(served: str) -> None:
    """The next picture waited until they were given up."""
    slow = [send_half(served, 1000) for _ in range(20)]
    started = time.monotonic()
    assert upload(served, encode(Image.new("RGB", (64, 64))))[0] == 200
    assert time.monotonic() - started < web.MAX_ARRIVAL_SECONDS / 2
    for connection in slow:
        connection.close()


def send_half(address: str, sent: int) -> socket.socket:
    """Open a connection and send so many bytes of a picture that has twice as many."""
    host, port = address.removeprefix("http://").split(":")
    lines = ("POST /api/matches HTTP/1.1", f"Host: {host}:{port}", f"Content-Type: {BYTES['content-type']}")
    connection = socket.create_connection((host, int(port)))
    connection.sendall("\r\n".join((*lines, f"Content-Length: {2 * sent}", "", "")).encode() + bytes(sent))
    return connection


@pytest.mark.parametrize("path", ["/..%2Freview/review.js", "/%2e%2e/review/review.js", "/..%2f..%2fservice.py"])
def test_names_lead_to_no_file(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (404, 422)


def test_other_sites_are_not_answered(client: TestClient) -> None:
    assert client.get("/api/about", headers={"host": "evil.example"}).status_code == 400
    form = client.post("/api/matches", content=b"x", headers={"content-type": "text/plain"})
    assert form.status_code == 400 and "octet-stream" in form.json()["detail"]
    question = {"vectors": [[1.0] * 16]}
    for origin in ("http://evil.example", "http://127.0.0.1.evil.example", "http://127.0.0.1:9", "null", "http://["):
        assert client.post("/api/vectors", json=question, headers={"origin": origin}).status_code == 403
    assert client.post("/api/vectors", json=question, headers={"origin": "http://127.0.0.1"}).status_code == 200
    assert "access-control-allow-origin" not in client.get("/api/about").headers
    assert client.get("/try.js").headers["cross-origin-resource-policy"] == "same-origin"
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site}
        assert client.post("/api/vectors", json=question, headers=headers).status_code == 403
        assert client.get("/api/about", headers=headers).status_code == 403
    assert client.post("/api/vectors", json=question, headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_page_that_is_closed_while_it_sends_is_no_error(service: SearchService) -> None:
    heads = {"host": "127.0.0.1", "content-type": BYTES["content-type"], "content-length": "1000"}
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": b"abc", "more_body": True}, {"type": "http.disconnect"}]
    request = {
        "type": "http",
        "method": "POST",
        "path": "/api/matches",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in heads.items()],
    }

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return parts.pop(0) if len(parts) > 1 else parts[0]

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(service_app(service)(request, receive, send))
    assert [message.get("status") for message in sent] == [400, None]  # answered as a bad request, nothing raised


@pytest.mark.parametrize(("sizes", "together"), [((6, 6, 6), 1), ((4, 4, 4, 4), 2), ((10, 1, 1), 2), ((1,) * 12, 10)])
def test_uploads_wait_for_room(sizes: tuple[int, ...], together: int) -> None:
    """Of ten bytes, say."""
    held: list[int] = []
    seen: list[tuple[int, int]] = []

    async def look_at_all() -> None:
        room = web.Room(10)

        async def look(size: int) -> None:
            async with room.hold(size):
                held.append(size)
                seen.append((sum(held), len(held)))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                held.remove(size)

        await asyncio.gather(*map(look, sizes))

    asyncio.run(look_at_all())
    assert len(seen) == len(sizes) and max(size for size, _ in seen) <= 10 and max(count for _, count in seen) == together


def test_the_port_is_this_machines_alone() -> None:
    with open_listener(0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(UserError, match=rf"^port {port} of 127.0.0.1 cannot be used \(Address already in use\)"):
            open_listener(port)
