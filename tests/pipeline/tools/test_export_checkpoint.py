"""A run as one checkpoint: the same vectors, normalisation and threshold without the run."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.matching.extractor import checkpoint_extractor, make_rule
from image_copies.models.inference.graph import GRAPH, VIEWS, list_graphs
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings, JoinedSettings, without_weights_files
from image_copies.pipeline.match import main
from image_copies.pipeline.run.run import open_existing_run
from image_copies.pipeline.steps.definitions import EMBED, ENSEMBLE, TRAIN, run_step
from image_copies.pipeline.tools import export
from image_copies.pipeline.tools.export import export_joined
from image_copies.pipeline.tools.networks import open_extractor
from image_copies.pipeline.tools.run_extractor import held_out_ids, run_extractor
from image_copies.submissions.vectors.files import read_vectors
from tests.runs import copy_run


@pytest.fixture(scope="module")
def exported(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run as the command line exports it: its graph is beside it."""
    path = tmp_path_factory.mktemp("exported") / "descriptor.safetensors"
    script = Path(__file__).parents[3] / "pipeline" / "export.py"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", [str(script), "--run", str(small_run), "--output", str(path)])
        runpy.run_path(str(script), run_name="__main__")
    assert list_graphs(path) == [path.with_suffix(GRAPH), path.with_suffix(VIEWS)]
    return path


@pytest.fixture
def without_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """No graph is written beside further exports, which takes seconds: torch opens them."""
    monkeypatch.setattr(export, "add_graph", lambda checkpoint, photographs: 0.0)


def test_a_run_that_is_found_without_torch_is_named(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with runs, a search ended with "torch is not installed", of which nobody knew what wanted it."""
    monkeypatch.setattr("image_copies.pipeline.tools.run_extractor.find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"is a run, whose networks need torch\. .*--checkpoint .*descriptor\.safetensors"
    ) as caught:
        run_extractor(open_existing_run(small_run))
    assert str(small_run) in str(caught.value)


def test_it_describes_and_normalises_as_the_run_does(small_run: Path, exported: Path) -> None:
    run = open_existing_run(small_run)
    of_run, alone = run_extractor(run), checkpoint_extractor(exported)
    images = find_images(run.data / "query_images")
    expected, found = of_run.extract_all(images).vectors, alone.extract_all(images).vectors
    assert found.shape == (15, 8) and np.abs(found - expected).max() < 5e-3  # half precision
    apart = np.abs(alone.normalize(found) - of_run.normalize(expected)).max(axis=1)
    assert (apart < 5e-3).mean() > 0.8, (
        apart
    )  # the background is in half precision: of two that are as near, the other may be taken
    assert np.abs(alone.normalize(found) - found).max() > 0.1
    tail, expected_tail = alone.calibrate(), of_run.calibrate()
    assert tail is not None and expected_tail is not None
    assert tail.scale == pytest.approx(expected_tail.scale, rel=0.01) and tail.pairs == expected_tail.pairs


@pytest.mark.usefixtures("without_graph")
def test_the_threshold_holds_for_the_vectors_that_are_stored(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was fitted with all training vectors: 2 to 5 times the stated false alarms where many were left out."""
    monkeypatch.setattr(export, "MAX_BACKGROUND", 20)
    run = open_existing_run(small_run)
    export_joined(run, tmp_path / "few.safetensors")
    few = checkpoint_extractor(tmp_path / "few.safetensors")
    synthetic, training = read_vectors(run.paths.projected("synthetic")), read_vectors(run.paths.projected("training"))
    sources = [json.loads(line)["source_id"] for line in run.paths.query_records.read_text().splitlines()]
    held_out = training.rows(held_out_ids(run))
    queries = few.normalize(synthetic.vectors).astype(np.float64)
    assert few.normalizer is not None and len(few.normalizer.training) == 20
    apart = ((queries[:, None] - held_out.vectors.astype(np.float64)) ** 2).sum(axis=2)
    apart[np.array(sources)[:, None] == np.array(held_out.ids)] = np.inf
    unrelated = np.sort(apart.min(axis=1))
    tail = few.calibrate()
    assert tail is not None and tail.pairs == len(unrelated) * len(held_out)
    kept = round(tail.share * tail.pairs)
    assert tail.start == pytest.approx(unrelated[kept], abs=1e-5)
    assert tail.scale == pytest.approx(unrelated[kept] - unrelated[:kept].mean(), rel=1e-3)


def test_without_a_run_it_is_what_ships_that_finds_copies(
    small_run: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("image_copies.pipeline.tools.networks.SHIPPED", exported)
    references = open_existing_run(small_run).data / "reference_images"
    assert main(["--queries", str(references), "--false-alarms", "0.3", "--output", "found"]) == 0
    assert (tmp_path / "found" / "matches.csv").is_file()
    rule = make_rule(open_extractor(None, None, None), None, 0.3)
    assert rule.tail is not None and rule.tail.pairs == 960


@pytest.mark.usefixtures("without_graph")
def test_a_run_with_a_joined_member_is_joined_again(small_run: Path, exported: Path, tmp_path: Path) -> None:
    """Such as a run with the descriptor that ships, which `run_all.sh --data` makes."""
    recipe = (small_run / "recipe.yaml").read_text()
    models = recipe[recipe.index("models:") : recipe.index("embedding:")]
    joined = f"models:\n  joined: {{kind: file, file: {exported}, background: true}}\n"
    run = copy_run(small_run, tmp_path / "run", (models, joined))
    for step in (TRAIN, EMBED, ENSEMBLE):
        run_step(run, step)
    export_joined(run, tmp_path / "again.safetensors")
    images = find_images(run.data / "query_images")
    projected = read_vectors(run.paths.projected("query")).vectors
    alone = checkpoint_extractor(tmp_path / "again.safetensors").extract_all(images).vectors
    assert alone.shape == projected.shape and np.abs(alone - projected).max() < 1e-4


@pytest.mark.usefixtures("without_graph")
def test_no_path_of_this_machine_is_written(small_run: Path, exported: Path, tmp_path: Path) -> None:
    """A member's settings named the file that its training started from."""
    run = copy_run(small_run, tmp_path / "run")
    found = load_descriptor(run.checkpoint("one"))
    assert isinstance(found.descriptor, Descriptor)
    start = tmp_path / "start.safetensors"
    found.descriptor.settings = found.descriptor.settings.model_copy(update={"weights": str(start)})
    save_descriptor(run.checkpoint("one"), found.descriptor, found.image_size, found.notes)
    export_joined(run, tmp_path / "out.safetensors")
    with safe_open(tmp_path / "out.safetensors", framework="pt") as file:
        about = file.metadata()["description"]
    assert json.loads(about)["descriptor"]["members"][0]["descriptor"]["weights"] == "none"
    assert str(tmp_path) not in about and start.name not in about
    joined = load_descriptor(exported).descriptor.settings  # a member that is joined itself
    assert isinstance(joined, JoinedSettings) and isinstance(joined.members[0].descriptor, DescriptorSettings)
    named = joined.members[0].model_copy(
        update={"descriptor": joined.members[0].descriptor.model_copy(update={"weights": "a.pth"})}
    )
    inner = joined.model_copy(update={"members": (named,)})
    outer = joined.model_copy(update={"members": (named.model_copy(update={"descriptor": inner}),)})
    assert "a.pth" in outer.model_dump_json() and "a.pth" not in without_weights_files(outer).model_dump_json()
