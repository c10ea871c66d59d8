"""Throughput of the search service (explore.py --serve): vectors and pictures per second, and its memory over many requests.

    python benchmarks/service.py [--references 100000] [--backbone lcnet_050] [--size 160] [--requests 20000]
    python benchmarks/service.py --judged INDEX --ask DIR     real pictures: adds their row to the table of docs/matching.md

An untrained network and simulated vectors (unit, 256-d). The service is started as a person starts it and asked over kept
connections: a request is sent at its appointed time, whether the one before has been answered or not; its time counts from then.
INDEX was made with what ships (`match.py add`), of pictures that are there; those of DIR are asked for, in a fixed order without
any order of their names, two in a second, and judged.
"""

import argparse
import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import numpy as np
from measurements import Figures, Measurements
from page_tables import make_table, parse_options
from PIL import Image
from rich.console import Console
from rich.table import Table

from image_copies.data.images import find_images
from image_copies.data.procedural import draw_picture
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.index.store import Content, add_files, open_store
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.submissions.ensemble.projection import scale_to_unit_length

TOP = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("service.json")
COMMAND, JUDGED = "benchmarks/service.py --docs", "pictures judged"
DIMENSIONS, BLOCK, CONNECTIONS, PICTURES = 256, 10_000, 16, 20
RATE, ASKED, WARM_UP = 2.0, 200, 20  # pictures a second, and their number


def make_index(folder: Path, checkpoint: Path, count: int) -> None:
    extractor = checkpoint_extractor(checkpoint)
    rng = np.random.default_rng(0)
    with open_store(folder, extractor.identity, DIMENSIONS) as store:
        for start in range(0, count, BLOCK):
            vectors = scale_to_unit_length(rng.standard_normal((min(BLOCK, count - start), DIMENSIONS), np.float32))
            contents = [Content((start + row).to_bytes(32, "big"), vector) for row, vector in enumerate(vectors)]
            add_files(store, {Path(f"/simulated/{int.from_bytes(c.digest)}.jpg"): c.digest for c in contents}, contents)


@contextmanager
def run_service(index: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, str(TOP / "pipeline" / "explore.py"), "--serve", "--index", str(index), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield process, int(line.split("http://127.0.0.1:")[1].split()[0])
        finally:
            process.terminate()


def make_request(path: str, kind: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def ask(port: int, questions: Sequence[bytes], rate: float, count: int) -> tuple[list[float], float]:
    """Send `count` questions at a rate; return the seconds of each, from its appointed time, and the seconds of all."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    times: list[float] = []

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while len(times) < count:
            appointed, content = await waiting.get()
            writer.write(content)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            if " 200 " not in head.splitlines()[0]:
                raise SystemExit(f"the service answered {head.splitlines()[0]}")
            await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
            times.append(time.perf_counter() - appointed)
        writer.close()

    start = time.perf_counter()
    workers = [asyncio.create_task(connection()) for _ in range(min(CONNECTIONS, round(2 * rate)))]  # idle ones are closed
    for number in range(count):
        appointed = start + number / rate
        await asyncio.sleep(max(0.0, appointed - time.perf_counter()))
        waiting.put_nowait((appointed, questions[number % len(questions)]))
    while len(times) < count:
        await asyncio.sleep(0.01)
        for worker in workers:
            if worker.done() and (error := worker.exception()):
                raise error
    for worker in workers:
        worker.cancel()
    return times, time.perf_counter() - start


def measure_cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_memory(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def encode_pictures() -> list[bytes]:
    found = []
    for number in range(PICTURES):
        target = io.BytesIO()
        Image.fromarray(draw_picture(np.random.default_rng(number), 800)).resize((1600, 1200)).save(target, "JPEG")
        found.append(target.getvalue())
    return found


def measure(options: argparse.Namespace) -> Table:
    table = Table("what", "asked /s", "answered /s", "median s", "95 % s", "slowest s", "CPU ms each", "MiB before", "after")
    with tempfile.TemporaryDirectory() as name:
        checkpoint, index = Path(name) / "untrained.safetensors", Path(name) / "index"
        network = Descriptor(DescriptorSettings(backbone=options.backbone, dimensions=DIMENSIONS))
        save_descriptor(checkpoint, network, options.size, {})
        make_index(index, checkpoint, options.references)
        rng = np.random.default_rng(1)
        vectors = scale_to_unit_length(rng.standard_normal((100, DIMENSIONS), np.float32))
        ready = [
            make_request("/api/vectors", "application/json", json.dumps({"vectors": [vector.tolist()]}).encode())
            for vector in vectors
        ]
        pictures = [make_request("/api/matches", "application/octet-stream", content) for content in encode_pictures()]
        with run_service(index, "--checkpoint", str(checkpoint), "--threshold=-1.5") as (process, port):
            asyncio.run(ask(port, [*ready, *pictures], 20, 200))  # warm-up
            for what, questions, rate, count in (
                ("ready vectors", ready, 100.0, 1000),
                ("pictures of 1600 × 1200", pictures, 20.0, 200),
                ("many vectors", ready, options.many, options.requests),
            ):
                if not count:
                    continue
                cpu, held = measure_cpu_seconds(process.pid), measure_memory(process.pid)
                times, took = asyncio.run(ask(port, questions, rate, count))
                spent = (measure_cpu_seconds(process.pid) - cpu) / count
                seconds = [f"{value:.3f}" for value in (*np.percentile(times, [50, 95]), max(times))]
                each = f"{1000 * spent:.1f}"
                table.add_row(
                    what, f"{rate:g}", f"{count / took:.1f}", *seconds, each, f"{held:.0f}", f"{measure_memory(process.pid):.0f}"
                )
    return table


def measure_judged(index: Path, folder: Path, count: int) -> Figures:
    """Ask for pictures with what ships; return the seconds until they are answered, and the processor's for each."""
    paths = find_images(folder, naming="file").paths
    chosen = [paths[row] for row in np.random.default_rng(0).permutation(len(paths))[: count + WARM_UP]]
    questions = [make_request("/api/matches", "application/octet-stream", path.read_bytes()) for path in chosen]
    with run_service(index) as (process, port):
        asyncio.run(ask(port, questions[count:], RATE, WARM_UP))
        cpu = measure_cpu_seconds(process.pid)
        times, _ = asyncio.run(ask(port, questions[:count], RATE, count))
        spent = (measure_cpu_seconds(process.pid) - cpu) / count
        median, late = np.percentile(times, [50, 95])
        memory = measure_memory(process.pid)
        with urlopen(f"http://127.0.0.1:{port}/api/about") as answer:
            references = json.load(answer)["references"]
    figures = {"references": references, "median s": median, "95 % s": late, "processor s": spent, "MiB": memory}
    return {name: round(float(figure), 3) for name, figure in figures.items()}


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of docs/matching.md: seconds until a picture is answered and judged."""
    heads = ["references", "pictures a second", "median", "95 % within", "processor, a picture", "memory"]
    found = [entry["figures"] for entry in store.find(JUDGED, {}).values()]
    rows = [
        [
            f"{figures['references']:,.0f}",
            f"{RATE:g}",
            *(f"{figures[name]:.2f} s" for name in ("median s", "95 % s", "processor s")),
            f"{figures['MiB']:,.0f} MiB",
        ]
        for figures in found
    ]
    return {"matching.md": make_table(heads, rows)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judged", type=Path, metavar="INDEX", help="an index of real pictures, made with what ships")
    parser.add_argument("--ask", type=Path, metavar="DIR", help="the pictures to ask for, at least 220")
    parser.add_argument("--references", type=int, default=100_000)
    parser.add_argument("--backbone", default="lcnet_050")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--requests", type=int, default=20_000, help="of the last row; 0 leaves it out")
    parser.add_argument("--many", type=float, default=150.0, help="requests per second of the last row")
    given, store = parse_options(parser, RESULTS, make_tables, COMMAND, with_data=False)
    if given.judged:
        figures = measure_judged(given.judged, given.ask, ASKED)
        store.replace(JUDGED, {}, figures)
        print(figures)
    else:
        Console(width=130).print(measure(given))
