"""The matcher, the service, embedding and scoring where only the base installation's packages are there: no torch, no Faiss."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.data.procedural import write_pictures
from image_copies.submissions.formats.submission import write_submission
from image_copies.submissions.vectors.files import Vectors

TOP = Path(__file__).parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUN = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None  # as if it were not installed
"""
COMMAND = RUN + "sys.argv[0] = 'image-copies'\nfrom image_copies.pipeline.command import main\nsys.exit(main())"
QUERIES, REFERENCES = ["Q00000", "Q00001"], ["R000000", "R000001"]
INTERFACE = """
import image_copies
(group,) = image_copies.find_copies("album")
print(*(path.name for path in group))
print(image_copies.compare("album/R000002.jpg", "album/small.jpg").copy, image_copies.embed(["album/small.jpg"]).shape)
from image_copies.matching.imagededup import CNN
print(CNN(verbose=False).find_duplicates("album", min_similarity_threshold=0.8)["small.jpg"])
"""
SERVICE = """
from fastapi.testclient import TestClient
from pathlib import Path
from image_copies.matching.extractor import make_rule
from image_copies.matching.explorer.service import SearchService, service_router
from image_copies.matching.web.app import make_app
from image_copies.pipeline.tools.run_extractor import open_extractor
extractor = open_extractor(None, None, None)
service = SearchService(Path("kept"), extractor, make_rule(extractor, None, 0.001, 10))
client = TestClient(make_app(service_router(service)), base_url="http://127.0.0.1")
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


def call(program: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", program, blocked(), *map(str, arguments)]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(TOP)})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without")
    list(write_pictures(folder / "album", "R", 4, seed=1, workers=1))
    with Image.open(folder / "album" / "R000002.jpg") as image:
        image.resize((image.width // 2, image.height // 2)).save(folder / "album" / "small.jpg")
    (folder / "truth.csv").write_text("query_id,reference_id\nsmall,small\n")
    (folder / "given.csv").write_text("query_id,reference_id\nQ00000,R000000\nQ00001,R000001\n")
    queries, references = (Vectors(ids, np.eye(2, 4, dtype=np.float32), np.zeros(2, bool)) for ids in (QUERIES, REFERENCES))
    write_submission(folder / "submission.h5", queries, references)
    return folder


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("album --verify", "1 group of 2 files"),
        ("album/R000002.jpg album/small.jpg", "copy: "),
        ("match leakage album album/.. --output shared", "the worst pairs across sets"),
        ("match add album --index kept", "5 images, 5 of them embedded"),
        ("match --apply move", "take everything back with: image-copies match --undo --output matches"),
        ("undo", "undo: 1 file done"),
        ("embed --images album --output vectors.h5", "vectors: vectors.h5"),
        ("score --submission submission.h5 --ground-truth given.csv", "µAP               1.0000"),
        ("score --queries vectors.h5 --references vectors.h5 --ground-truth truth.csv", "µAP               1.0000"),
    ],
)
def test_commands(place: Path, line: str, said: str) -> None:
    done = call(COMMAND, *line.split(), folder=place)
    assert done.returncode == 0 and said in done.stdout, (done.stdout, done.stderr)


def test_python_and_the_service(place: Path) -> None:
    done = call(RUN + INTERFACE, folder=place)
    assert done.stdout == "R000002.jpg small.jpg\nTrue (1, 256)\n['R000002.jpg']\n", done.stderr
    done = call(RUN + SERVICE, folder=place)
    assert float(done.stdout) > -1e-6, done.stderr


@pytest.mark.parametrize(
    "line", ["export --checkpoint none.safetensors", "embed --images album --output v.h5 --checkpoint timm:resnet18"]
)
def test_what_needs_an_extra_says_so(place: Path, line: str) -> None:
    done = call(COMMAND, *line.split(), folder=place)
    wanted = " is not installed, which this task needs. Install it with: python -m pip install -e '"
    assert (
        done.returncode == 2 and wanted in done.stderr and done.stderr.endswith("[train]'\n") and "Traceback" not in done.stderr
    )
