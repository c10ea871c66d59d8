"""What every test shares: no hub, one thread, and the optional folder of real photos."""

import json
import os
import runpy
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(scope="session")
def copysets() -> Path:
    """The folder of real photos with ground truth that COPYSETS names; the test is skipped without it."""
    folder = os.environ.get("COPYSETS")
    if not folder:
        pytest.skip("COPYSETS is not set to a folder of photos with ground truth")
    if not Path(folder).is_dir():
        pytest.skip(f"COPYSETS names {folder}, which is not a folder")
    return Path(folder)


SMALL_RECIPE = """
queries: {count: 60, copies: 30, augmentation: {intensity: 0.3}}
models:
  one:
    descriptor: {backbone: test_efficientnet, dimensions: 16}
    stages: [{image_size: 32}]
embedding: {workers: 0}
ensemble: {dimensions: [8], eigen_power: [0]}
normalization: {methods: method2, direction_neighbours: 10}
"""


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run up to step 03 on little pictures, with an untrained network; its data lie beside it in data/."""
    # imported here: most tests do without torch
    from data.procedural.sample import write_pictures
    from models.network.checkpoint import save_descriptor
    from models.network.descriptor import Descriptor
    from models.settings import DescriptorSettings

    where = tmp_path_factory.mktemp("small")
    run = where / "run"
    for folder, prefix, count in (("training_images", "T", 80), ("reference_images", "R", 15), ("query_images", "Q", 15)):
        list(write_pictures(where / "data" / folder, prefix, count, seed=1, workers=1))
    run.mkdir()
    (run / "recipe.yaml").write_text(SMALL_RECIPE)
    (run / "run.json").write_text(json.dumps({"data": str(where / "data")}))
    network = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16))
    save_descriptor(run / "models" / "one" / "stage-1.safetensors", network, 32, {})
    for step in ("00_augment", "02_embed", "03_ensemble"):
        with pytest.MonkeyPatch.context() as patched:
            script = Path(__file__).parents[1] / "pipeline" / f"{step}.py"
            patched.setattr("sys.argv", [str(script), "--run", str(run)])
            runpy.run_path(str(script), run_name="__main__")
    return run
