"""Every parser of what others write or damage, given 100,000 mutated and made-up files: only documented errors.

With `-m faults` all are tried; the quick suite tries a few of each. The cases are the same in each run.
"""

import io
import json
import random
import shutil
import string
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h5py
import numpy as np
import pytest
import torch
import yaml
from fastapi.testclient import TestClient

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet
from image_copies.data.labels import read_labels
from image_copies.data.sources.archives import list_archive, read_member
from image_copies.data.sources.discovery import discover
from image_copies.data.sources.walking import expand_sources
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.matching.files.journal import Journal
from image_copies.matching.files.plan import read_plan
from image_copies.matching.index.decisions import Decisions, read_decisions
from image_copies.matching.index.search import open_search
from image_copies.matching.index.store import add_files, open_store, stored_files, unreadable_files
from image_copies.matching.matches import Rule
from image_copies.matching.show.service import SearchService, service_app
from image_copies.models.inference.onnx_embedder import open_onnx
from image_copies.models.inference.onnx_export import export_onnx
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint, load_descriptor, save_descriptor
from image_copies.models.training.launch import launch_fabric
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import StageSettings
from image_copies.models.training.state import Progress, load_state, save_state
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import Run, open_existing_run
from image_copies.pipeline.run.step import describe_state, find_changes, read_manifest
from image_copies.submissions.ensemble.projection import Projection, load_projection, save_projection
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.formats.matching_track import evaluate_matches
from image_copies.submissions.formats.submission import (
    describe_oddities,
    find_submission_problems,
    open_submission,
    write_submission,
)
from image_copies.submissions.scoring.breakdown import read_edits
from image_copies.submissions.vectors.files import Vectors, read_vectors, write_vectors
from tests.faults.harness import Ledger, memory, mutate
from tests.networks import SMALL, make_small, save_small
from tests.pictures import write_images

TOP = Path(__file__).parents[2]
FEW = 12  # cases of each parser in the quick suite
LONGEST = 5.0  # seconds of the processor for one case
MOST_MEMORY = 2.0  # GiB that all cases of a parser together add
STRINGS = h5py.string_dtype("utf-8")


@dataclass(frozen=True)
class Parser:
    """Something that reads files of others.

    Attributes:
        cases: how many it gets in the long form.
        parse: reads the file; what it raises but UserError is a failure.
        seeds: whole files, to mutate.
        name: what the file is called.
        made: draws a whole file of the right syntax and any content; None where mutation is all.
        refuses: whether some damage is an error; a damaged manifest only makes its step stale.
    """

    cases: int
    parse: Callable[[Path], object]
    seeds: Sequence[bytes]
    name: str = "file"
    made: Callable[[random.Random], bytes] | None = None
    refuses: bool = True


VALUES: list[Any] = [
    *(None, True, 0, 1, -1, 0.5, 10**12, -(2**70), float("nan"), float("inf")),
    *("", "a", "Q1", "../x", "\0", "nan", "<b>", [], [1, "a"], {}, {"a": [None]}),
]


def change(content: Any, rng: random.Random) -> Any:
    """Return a copy of a tree of dictionaries and lists of which one or two values, or keys, are others."""
    tree: Any = {"": json.loads(json.dumps(content))}
    for _ in range(rng.randint(1, 2)):
        inner: Any = tree
        key: Any = ""
        while isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.8:
            inner = inner[key]
            key = rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        if isinstance(inner, dict) and inner is not tree and rng.random() < 0.3:
            inner[str(rng.choice(VALUES))] = inner.pop(key)
        else:
            inner[key] = deepcopy(rng.choice(VALUES))
    return tree[""]


def as_json(content: Any) -> Callable[[random.Random], bytes]:
    return lambda rng: json.dumps(change(content, rng)).encode()


def as_yaml(content: Any) -> Callable[[random.Random], bytes]:
    return lambda rng: yaml.safe_dump(change(content, rng), allow_unicode=True).encode("utf-8", "replace")


def file_of(write: Callable[[Path], object], path: Path) -> bytes:
    """The bytes of what `write` makes."""
    write(path)
    return path.read_bytes()


def hdf5_parsers(folder: Path) -> dict[str, Parser]:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((5, 4)).astype(np.float32)
    ids = [f"Q{number}" for number in range(5)]

    def packed(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for name, rows in (("ids", ids), ("query_ids", ids), ("reference_ids", ids)):
                file.create_dataset(name, data=np.array(rows, object), dtype=STRINGS, chunks=(2,), compression="gzip")
            for name in ("vectors", "query", "reference"):
                file.create_dataset(name, data=vectors, chunks=(2, 4), compression="gzip", shuffle=True, fletcher32=True)

    whole = Vectors(ids, vectors, np.zeros(5, bool))
    plain = file_of(lambda path: write_vectors(path, ids, [vectors], np.array([0, 1, 0, 0, 0], bool)), folder / "a.h5")
    seeds = [plain, file_of(packed, folder / "b.h5")]

    submission = file_of(lambda path: write_submission(path, whole, whole), folder / "c.h5")
    projection = file_of(
        lambda path: save_projection(path, Projection(vectors[0], np.eye(4, dtype=np.float32), vectors[1])), folder / "d.h5"
    )

    def submitted(path: Path) -> None:
        find_submission_problems(path, ids, ids)
        describe_oddities(*open_submission(path))

    return {
        "vectors": Parser(9000, read_vectors, seeds, "v.h5"),
        "submissions": Parser(9000, submitted, [submission, seeds[1]], "s.h5"),
        "projections": Parser(4000, load_projection, [projection], "p.h5"),
    }


def text_parsers(folder: Path) -> dict[str, Parser]:
    truth = GroundTruth(["Q1", "Q2"], frozenset({("Q1", "R1")}))
    images = ImageSet(["a", "b"], [Path("a"), Path("b")])
    pairs = b"query_id,reference_id\nQ1,R1\nQ2,\n"
    matches = b"query_id,reference_id,score\nQ1,R1,0.5\nQ2,R9,1e-3\nQ1,R2,7\n"
    plan = (
        b"group,action,file,kept,reason,score,class,certainty,protected,sha256\n"
        b"1,keep,/a/x.jpg,/a/x.jpg,largest,,,,," + b"0" * 64 + b"\n"
        b"1,remove,/a/y.jpg,/a/x.jpg,copy,-0.25,certain,96,," + b"a" * 64 + b"\n"
    )
    choice = b"dimensions,eigen_power,method,beta,weights,chosen\n8,-0.5,method1,1.0,0.5 0.25,True\n8,0,none,0,,False\n"
    paths = {"file": "/a", "place": "/b", "kept": "/c"}
    step = {"state": "begin", "number": 1, "way": "move", **paths, "sha256": "0" * 64, "note": ""}
    journal = b"".join(json.dumps(line).encode() + b"\n" for line in (step, {"state": "done", "number": 1}))
    pictures = folder / "pictures"
    write_images(pictures, 2, "P")

    def listed(path: Path) -> None:
        for source in expand_sources([Path(f"@{path}")]):
            if "\0" in str(source) or pictures in (source.resolve(), *source.resolve().parents):  # not "/", which may be named
                discover([source])

    def opened(path: Path) -> None:
        Journal(path).close()

    recipe = yaml.safe_load((TOP / "recipes" / "sample.yaml").read_text(encoding="utf-8"))
    recipes = [path.read_bytes() for path in sorted((TOP / "recipes").glob("*.yaml"))]
    return {
        "ground truths": Parser(6000, read_ground_truth, [pairs], "g.csv"),
        "matches": Parser(6000, lambda path: evaluate_matches(path, truth), [matches], "m.csv"),
        "labels": Parser(3000, lambda path: read_labels(path, images), [b"image_id,label\na,cat\nb,dog\n"], "l.csv"),
        "edits": Parser(3000, read_edits, [b"query_id,edits\nQ1,blur crop\nQ2,\n"], "e.csv"),
        "choices": Parser(3000, read_choice, [choice], "c.csv"),
        "plans": Parser(4000, read_plan, [plan], "p.csv"),
        "journals": Parser(3000, opened, [journal], "j.jsonl"),
        "journals, made": Parser(1000, opened, [journal], "j.jsonl", lambda rng: as_json(step)(rng) + b"\n"),
        "lists": Parser(3000, listed, [b"pictures\n# a comment\npictures/P000000.jpg\n", b"pictures\r\n\r\n"], "pictures.txt"),
        "recipes": Parser(5000, read_recipe, recipes, "r.yaml"),
        "recipes, made": Parser(1200, read_recipe, recipes, "r.yaml", as_yaml(recipe)),
    }


def run_parsers(folder: Path) -> dict[str, Parser]:
    """What lies in a run's folder as JSON."""
    (folder / "data").mkdir()
    shutil.copy(TOP / "recipes" / "sample.yaml", folder / "recipe.yaml")
    description = {"data": str(folder / "data"), "scale": 0.5}

    def opened(path: Path) -> None:
        open_existing_run(path.parent)

    manifest = {"inputs": {"a": ["x", 1, 2]}, "parameters": {"b": {"c": 1}}, "sizes": {"/x": 3}, "seconds": 1.0, "code": "c"}
    run = Run(folder, read_recipe(folder / "recipe.yaml"), folder / "data")
    state = describe_state({"a": "x"}, {"b": {"c": 1}})
    (folder / "manifests").mkdir()

    def compared(path: Path) -> None:
        shutil.copy(path, folder / "manifests" / "label.json")
        find_changes(read_manifest(run, "label"), state, [folder / "recipe.yaml", folder / "none"])

    fabric = launch_fabric("32")
    settings = ModelSettings(descriptor=SMALL, stages=(StageSettings(),))
    identity = {"settings": settings.what_trains().model_dump(mode="json")}
    save_state(
        folder, identity, Progress(step=1, sums={"loss": 1.5}), {"weights": {"a": torch.arange(6.0)}, "n": [1, None]}, fabric
    )
    trained = (folder / "state.json").read_bytes()

    tensors = (folder / "state-1-0.safetensors").read_bytes()

    def resumed(path: Path) -> None:
        for name, content in (("state.json", trained), ("state-1-0.safetensors", tensors)):
            if path.name != name:
                (folder / name).write_bytes(content)  # only one of the two is damaged
        load_state(folder, identity, fabric)

    return {
        "run.json": Parser(3000, opened, [json.dumps(description).encode()], "run.json"),
        "run.json, made": Parser(1000, opened, [], "run.json", as_json(description)),
        "manifests": Parser(3000, compared, [json.dumps(manifest).encode()], "manifest.json", refuses=False),
        "manifests, made": Parser(1000, compared, [], "manifest.json", as_json(manifest), refuses=False),
        "training states": Parser(2000, resumed, [trained], "state.json"),
        "training states, made": Parser(1000, resumed, [], "state.json", as_json(json.loads(trained))),
        "training tensors": Parser(2000, resumed, [tensors], "state-1-0.safetensors"),
    }


def archive_parsers(folder: Path) -> dict[str, Parser]:
    zipped, stored = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.jpg", b"x" * 500)
        archive.writestr("../evil.jpg", b"y")
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("c.png", b"z" * 50)
    tars = []
    for mode in ("w", "w:gz", "w:xz"):
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode=mode) as opened:
            for name, kind in (("a/b.jpg", tarfile.REGTYPE), ("link.jpg", tarfile.SYMTYPE), ("/abs.jpg", tarfile.REGTYPE)):
                info = tarfile.TarInfo(name)
                info.size, info.type, info.linkname = (
                    (50, kind, "a/b.jpg") if kind == tarfile.REGTYPE else (0, kind, "/etc/passwd")
                )
                opened.addfile(info, io.BytesIO(b"t" * 50))
        tars.append(target.getvalue())

    def read(path: Path) -> None:
        for name in list_archive(path).members[:5]:
            try:
                read_member(path, name)
            except UserError:
                continue

    return {
        "zip archives": Parser(5000, read, [zipped.getvalue(), stored.getvalue()], "a.zip"),
        "tar archives": Parser(5000, read, tars, "a.tar"),
    }


def index_parsers(folder: Path) -> dict[str, Parser]:
    rng = np.random.default_rng(0)
    with open_store(folder / "index", "extractor", 4) as store:
        contents = {bytes([number]) * 32: rng.standard_normal(4).astype(np.float32) for number in range(6)}
        add_files(store, {Path(f"/p/{row}.jpg"): digest for row, digest in enumerate(contents)}, contents)
        add_files(store, {Path("/p/6.jpg"): b"u" * 32}, {b"u" * 32: None})
        Decisions(folder / "index").record((Path("/p/0.jpg"), Path("/p/1.jpg")), (bytes(32), b"\1" * 32), "copy")
        store.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = (folder / "index" / "references.sqlite").read_bytes()

    def searched(path: Path) -> None:
        for beside in path.parent.glob("references.sqlite-*"):
            beside.unlink()
        for beside in path.parent.glob("[cqv]*"):
            beside.unlink()
        with open_store(path.parent) as store:
            stored_files(store), unreadable_files(store), read_decisions(store)
            open_search(store).nearest(np.ones((1, 4), np.float32), 3)

    return {"indexes": Parser(5000, searched, [whole], "references.sqlite")}


def checkpoint_parsers(folder: Path) -> dict[str, Parser]:
    path = folder / "whole.safetensors"
    save_descriptor(path, make_small(), 32, {"a": 1})
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    head = json.loads(whole[8 : 8 + length])
    description = json.loads(head["__metadata__"]["description"])

    def described(tree: Any) -> bytes:
        text = json.dumps(head | {"__metadata__": {"description": json.dumps(tree)}}).encode()
        return len(text).to_bytes(8, "little") + text + whole[8 + length :]

    def headed(tree: Any) -> bytes:
        text = json.dumps(tree).encode()
        return len(text).to_bytes(8, "little") + text + whole[8 + length :]

    return {
        "checkpoints": Parser(2500, load_descriptor, [whole[: 8 + length], whole], "c.safetensors"),
        "checkpoints' descriptions, made": Parser(
            1000, load_descriptor, [], "c.safetensors", lambda rng: described(change(description, rng))
        ),
        "checkpoints' headers, made": Parser(1000, load_descriptor, [], "c.safetensors", lambda rng: headed(change(head, rng))),
    }


def onnx_parsers(folder: Path) -> dict[str, Parser]:
    models = [(Checkpoint(make_small(), 32, {}), EmbeddingSettings())]
    whole = file_of(lambda path: export_onnx(models, None, {}, path), folder / "o.onnx")
    return {"ONNX": Parser(2000, open_onnx, [whole], "o.onnx")}


PARSERS: dict[str, Callable[[Path], dict[str, Parser]]] = {
    "HDF5": hdf5_parsers,
    "text": text_parsers,
    "runs": run_parsers,
    "archives": archive_parsers,
    "indexes": index_parsers,
    "checkpoints": checkpoint_parsers,
    "ONNX": onnx_parsers,
}


def check_parser(parser: Parser, path: Path, cases: int) -> tuple[int, float]:
    """Give it the cases; anything but UserError fails, and a case of over LONGEST seconds: the file is left for a look.

    Returns how many were refused, and the seconds of the longest.
    """
    refused, longest = 0, 0.0
    for number in range(cases):
        rng = random.Random(number)
        path.write_bytes(parser.made(rng) if parser.made is not None else mutate(parser.seeds, rng))
        started = time.process_time()
        try:
            parser.parse(path)
        except UserError as error:
            assert str(error)
            refused += 1
        longest = max(longest, time.process_time() - started)
        assert longest < LONGEST
    return refused, longest


@pytest.mark.parametrize("kind", [kind for kind in PARSERS if kind != "ONNX"])
def test_a_few_damaged_files_give_documented_errors_only(kind: str, tmp_path: Path) -> None:
    for parser in PARSERS[kind](tmp_path).values():
        for content in parser.seeds[-1:]:
            (tmp_path / parser.name).write_bytes(content)
            parser.parse(tmp_path / parser.name)  # a seed that is refused would be no test
        check_parser(parser, tmp_path / parser.name, FEW)


@pytest.mark.faults
@pytest.mark.parametrize("kind", PARSERS)
def test_many_damaged_files_give_documented_errors_only(kind: str, tmp_path: Path, ledger: Ledger) -> None:
    for name, parser in PARSERS[kind](tmp_path).items():
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        started, before = time.monotonic(), memory("VmRSS")
        refused, longest = check_parser(parser, tmp_path / parser.name, parser.cases)
        grown = memory("VmHWM") - before
        what = f"fuzzed: {name}, {refused} refused, the longest {longest:.2f} s, {grown:.2f} GiB more"
        ledger(what, parser.cases, [], time.monotonic() - started)
        assert (refused > 0) == parser.refuses and grown < MOST_MEMORY


METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE")
PATHS = ("/", "/api/about", "/style.css", "/try.js", "/page/../service.py", "/api/matches", "/api/vectors", "/openapi.json")
HEADERS = ("content-type", "content-length", "host", "origin", "sec-fetch-site", "range", "expect", "transfer-encoding", "cookie")
SENT = ("application/octet-stream", "application/json", "127.0.0.1", "localhost:99999", "http://[", "null", "-1", "9" * 30, "²",
        "cross-site", "bytes=0-0", "bytes=9-1,-5", "100-continue", "gzip", "")  # fmt: skip


def draw_request(questions: Sequence[Any], rng: random.Random) -> tuple[str, str, list[tuple[str, str]], bytes]:
    """Draw method, path, headers and body; half of them of the right form with a wrong content."""
    question, right = rng.choice(questions), [("content-type", "application/json")]
    bodies = mutate([json.dumps(question).encode()], rng), as_json(question)(rng), rng.randbytes(rng.randrange(60))
    path = rng.choice([*PATHS, "/" + "".join(rng.choices(string.punctuation, k=rng.randrange(20)))])
    headers = [(rng.choice(HEADERS), rng.choice(SENT)) for _ in range(rng.randrange(4))]
    return rng.choice(["POST", *METHODS]), path, rng.choice([right, headers]), rng.choice(bodies)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[TestClient, list[Any]]:
    """The search service, with questions that it answers."""
    folder = tmp_path_factory.mktemp("servers")
    extractor: Extractor = checkpoint_extractor(save_small(folder / "n.safetensors", dimensions=4))
    with open_store(folder / "index", extractor.identity, 4) as store:
        add_files(store, {Path("/x.jpg"): b"d" * 32}, {b"d" * 32: np.ones(4, np.float32)})
    service = SearchService(folder / "index", extractor, Rule(-1.0, None, 0.001, 3))
    searched = TestClient(service_app(service), base_url="http://127.0.0.1", raise_server_exceptions=False)
    return searched, [{"vectors": [[1.0, 0.0, 0.0, 0.0], [1, 2, 3, 4]]}]


def check_requests(client: TestClient, questions: list[Any], cases: int) -> int:
    """Nothing is answered with an error of the server's own; returns how many requests were refused."""
    refused = 0
    for number in range(cases):
        method, path, headers, body = draw_request(questions, random.Random(number))
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        answered = client.request(method, quote(path), headers=encoded, content=body)
        assert answered.status_code < 500, answered.text
        refused += answered.status_code >= 400
    return refused


def test_a_few_odd_requests_are_answered(searched: tuple[TestClient, list[Any]]) -> None:
    assert check_requests(*searched, FEW) > 0


@pytest.mark.faults
def test_many_odd_requests_are_answered(searched: tuple[TestClient, list[Any]], ledger: Ledger) -> None:
    started = time.monotonic()
    refused = check_requests(*searched, 8000)
    ledger(f"fuzzed: requests to the service, {refused} refused", 8000, [], time.monotonic() - started)
    assert 0 < refused < 8000
