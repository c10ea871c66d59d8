"""The matcher, the service, embedding and scoring where only the base installation's packages are there: no torch, no Faiss."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest

from image_copies.submissions.formats.submission import write_submission
from image_copies.submissions.vectors.files import Vectors
from tests.pictures import write_album

TOP = Path(__file__).parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BLOCK = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None  # as if it were not installed
"""
COMMANDS = """
import io, json
from contextlib import redirect_stderr, redirect_stdout
from image_copies.pipeline.command import main
answers = []
for line in sys.argv[1:]:
    output, errors = io.StringIO(), io.StringIO()
    sys.argv = ["image-copies", *line.split()]
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            code = main()
        except SystemExit as end:
            code = end.code
    answers.append([code, output.getvalue(), errors.getvalue()])
print(json.dumps(answers))
"""
QUERIES, REFERENCES = ["Q00000", "Q00001"], ["R000000", "R000001"]
INTERFACE = """
import image_copies
(group,) = image_copies.find_copies("album")
print(*(path.name for path in group))
print(image_copies.compare("album/R000002.jpg", "album/small.jpg").is_copy, image_copies.embed(["album/small.jpg"]).shape)
from image_copies.matching.imagededup import CNN
print(CNN(verbose=False).find_duplicates("album", min_similarity_threshold=0.8)["small.jpg"])
"""
SERVICE = """
from fastapi.testclient import TestClient
from pathlib import Path
from image_copies.matching.extractor import make_rule
from image_copies.matching.show.service import SearchService, service_app
from image_copies.pipeline.tools.networks import open_extractor
extractor = open_extractor(None, None, None)
service = SearchService(Path("kept"), extractor, make_rule(extractor))
client = TestClient(service_app(service), base_url="http://127.0.0.1")
content = Path("album/small.jpg").read_bytes()
answer = client.post("/api/matches", content=content, headers={"content-type": "application/octet-stream"}).json()
print(answer["matches"][0]["score"])
"""


def blocked() -> str:
    """The modules of all that only extras install."""
    extras = [line for name in ("train", "interchange") for line in PROJECT["optional-dependencies"][name]]
    names = {re.split(r"[\[<>=!; ]", line)[0].lower() for line in extras}
    modules = {module for module, owners in packages_distributions().items() if {owner.lower() for owner in owners} & names}
    assert {"torch", "timm", "faiss", "scipy", "sklearn", "onnxscript", "matplotlib"} <= modules
    return ",".join(sorted(module for module in modules if module.isidentifier()))


def call(program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", BLOCK + program, blocked(), *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(TOP)})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path
    write_album(folder / "album")
    (folder / "truth.csv").write_text("query_id,reference_id\nsmall,small\n")
    (folder / "given.csv").write_text("query_id,reference_id\nQ00000,R000000\nQ00001,R000001\n")
    queries, references = (Vectors(ids, np.eye(2, 4, dtype=np.float32), np.zeros(2, bool)) for ids in (QUERIES, REFERENCES))
    write_submission(folder / "submission.h5", queries, references)
    return folder


WANTED = " is not installed, which this task needs. Install it with: python -m pip install -e '"
LINES = {  # and what is said; each begins with what those before it left
    "album --verify": "1 group of 2 files",
    "album/R000002.jpg album/small.jpg": "copy: ",
    "match leakage album album/.. --output shared": "the worst pairs across sets",
    "match add album --index kept": "5 images, 5 of them embedded",
    "match --apply move": "take everything back with: image-copies match --undo --output matches",
    "undo": "undo: 1 file done",
    "embed --images album --output vectors.h5": "vectors: vectors.h5",
    "score --submission submission.h5 --ground-truth given.csv": "µAP               1.0000",
    "score --queries vectors.h5 --references vectors.h5 --ground-truth truth.csv": "µAP               1.0000",
    "export --checkpoint none.safetensors": WANTED,
    "embed --images album --output v.h5 --checkpoint timm:resnet18": WANTED,
}


def test_commands_python_and_the_service(place: Path) -> None:
    done = call(COMMANDS, *LINES, folder=place)
    assert done.returncode == 0, done.stderr
    for (line, said), (code, output, errors) in zip(LINES.items(), json.loads(done.stdout), strict=True):
        if said == WANTED:
            assert code == 2 and said in errors and errors.endswith("[train]'\n") and "Traceback" not in errors, errors
        else:
            assert code == 0 and said in output, (line, output, errors)
    done = call(INTERFACE + SERVICE, folder=place)
    *found, score = done.stdout.splitlines()
    assert found == ["R000002.jpg small.jpg", "True (1, 256)", "['R000002.jpg']"], done.stderr
    assert float(score) > -1e-6
