"""The search service under 1,000 uploads at once, large, broken and slow ones among them: all are answered."""

import asyncio
import io
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from PIL import Image

from image_copies.matching.explorer.service import service_router
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.web import guard
from image_copies.matching.web.app import make_app, open_listener
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from tests.faults.harness import Ledger, memory, share_of
from tests.faults.workshop import draw_pictures
from tests.services import open_service

pytestmark = pytest.mark.faults
UPLOADS = share_of(1_000)
SLOW = 12  # senders that begin a picture and say no more
ARRIVAL_SECONDS = 5.0  # instead of 30, so that the slow ones are given up within the test
MOST_MEMORY = 1.0  # GiB that the process may take more than before, at its peak
LONGEST = 600.0  # seconds until the last answer, on a busy machine


def serve(folder: Path, told: Connection) -> None:
    """In a process of its own: the service as explore.py serves it; tells its port."""
    guard.MAX_ARRIVAL_SECONDS = ARRIVAL_SECONDS
    service = open_service(folder, checkpoint_extractor(folder / "n.safetensors"))
    with open_listener(0) as listener:
        told.send(listener.getsockname()[1])
        uvicorn.Server(uvicorn.Config(make_app(service_router(service)), log_level="critical")).run([listener])


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, int]]:
    """The port and the process of a service over a few pictures."""
    draw_pictures(folder / "pictures", "R", 12, 1)
    save_descriptor(folder / "n.safetensors", Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=4)), 32, {})
    context = multiprocessing.get_context("spawn")
    told, telling = context.Pipe()
    process = context.Process(target=serve, args=(folder, telling))
    process.start()
    try:
        assert process.pid is not None
        yield int(told.recv()), process.pid
    finally:
        process.kill()
        process.join()


def bodies() -> list[bytes]:
    """Small pictures that no two of are alike, every 50th of 12 megapixels, every 20th broken."""
    large = io.BytesIO()
    Image.fromarray(np.full((3000, 4000, 3), 90, np.uint8)).save(large, "JPEG")
    found = []
    for number in range(UPLOADS):
        small = io.BytesIO()
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (60, 80, 3), np.uint8)).save(small, "PNG")
        content = large.getvalue() + bytes([number % 256, number // 256]) if number % 50 == 7 else small.getvalue()
        found.append(content[: len(content) // 3] if number % 20 == 3 else content)
    return found


async def upload(port: int, body: bytes, sent: int | None = None) -> tuple[int, str]:
    """Send a picture, or only its first bytes; the status and the answer, 0 where the connection ended without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = (
            f"POST /api/matches HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/octet-stream\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body[:sent])
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(), LONGEST)
        lines, _, said = answer.partition(b"\r\n\r\n")
        return (int(lines.split()[1]), said.decode()) if lines else (0, "")
    except OSError:
        return 0, ""
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def upload_all(port: int, pictures: list[bytes]) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """All at once, the slow ones first; their answers and those of the slow ones."""
    slow = [asyncio.create_task(upload(port, pictures[0], 100)) for _ in range(SLOW)]
    await asyncio.sleep(0.5)
    return await asyncio.gather(*(upload(port, picture) for picture in pictures)), await asyncio.gather(*slow)


def test_a_thousand_uploads_at_once_and_slow_senders(tmp_path: Path, ledger: Ledger) -> None:
    pictures, started = bodies(), time.monotonic()
    with served(tmp_path) as (port, process):
        asyncio.run(upload_all(port, pictures[:20]))  # so that everything is loaded
        before, handles = memory("VmRSS", process), len(list(Path(f"/proc/{process}/fd").iterdir()))
        answers, slow = asyncio.run(upload_all(port, pictures))
        held = memory("VmRSS", process)
        asyncio.run(upload_all(port, pictures))
        grown = memory("VmRSS", process) - held
        peak, after = memory("VmHWM", process) - before, asyncio.run(upload(port, pictures[0]))
        left = len(list(Path(f"/proc/{process}/fd").iterdir())) - handles
    statuses = Counter(status for status, _ in answers)
    failures = [
        f"upload {number}: {status} {said}" for number, (status, said) in enumerate(answers) if not answered(status, said)
    ]
    failures += [f"a broken picture was taken: {number}" for number in range(3, UPLOADS, 20) if answers[number][0] == 200]
    failures += [f"a slow sender: {status} {said}" for status, said in slow if status != 408]
    failures += [f"after that: {after}"] if after[0] != 200 else []
    failures += [f"{left} handles are left open"] if left > 0 else []
    failures += [f"{grown:.2f} GiB more after the same again"] if grown > 0.05 else []
    failures += [f"{peak:.2f} GiB more than before"] if peak > MOST_MEMORY else []
    what = (
        f"{UPLOADS} uploads at once, {SLOW} slow senders: statuses {dict(sorted(statuses.items()))}, at most {peak:.2f} GiB more"
    )
    ledger(what, UPLOADS + SLOW, failures, time.monotonic() - started)


def answered(status: int, said: str) -> bool:
    """What a picture copies, or a refusal in the service's own words."""
    try:
        given = json.loads(said)["matches" if status == 200 else "message"]
        return isinstance(given, list if status == 200 else str) and status in (200, 400)
    except (ValueError, KeyError, TypeError):
        return False
