"""`pip install .` in a fresh environment: one name in site-packages, next to a user's own packages `data` and `models`."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from image_copies.data.commands import find_version
from image_copies.data.procedural import write_pictures

TOP = Path(__file__).parents[2]
FOLDERS = ("image_copies", "augmentations", "data", "matching", "models", "pipeline", "recipes", "studies", "submissions")
pytestmark = pytest.mark.slow

LOADING = """
from pathlib import Path
from torch.utils.data import DataLoader
from image_copies.data.images import find_images
from image_copies.data.preprocessing import PreprocessedImages

if __name__ == "__main__":
    for start in ("fork", "spawn", "forkserver"):
        images = PreprocessedImages(find_images(Path("pictures")), 32)
        (batch,) = DataLoader(images, batch_size=2, num_workers=1, multiprocessing_context=start)
        assert batch[1].all(), start
"""


@dataclass(frozen=True)
class Place:
    """A folder of a user with two pictures and with packages named as ours, and a Python that was just set up.

    Attributes:
        folder: The user's folder.
        site: The folder of installed packages.
        call: Runs Python there with arguments, and variables besides.
    """

    folder: Path
    site: Path
    call: Callable[..., subprocess.CompletedProcess[str]]


def make_place(top: Path) -> Place:
    """Return a place whose Python has the dependencies, but not the project."""
    venv.create(top / "fresh", symlinks=True)
    (site,) = (top / "fresh" / "lib").glob("python*/site-packages")
    # Only the folders themselves: what their .pth files name, such as an editable installation of the project, is left out.
    (site / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    for package in ("data", "models"):
        (top / "work" / package).mkdir(parents=True)
        (top / "work" / package / "__init__.py").write_text("MINE = True\n")
    list(write_pictures(top / "work" / "pictures", "P", 2, seed=1, workers=1))

    def call(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
        command = [str(top / "fresh" / "bin" / "python"), *map(str, arguments)]
        return subprocess.run(command, cwd=top / "work", env=environment, capture_output=True, text=True)

    return Place(top / "work", site, call)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The project installed from a copy of its folders, in which a build may leave files."""
    top = tmp_path_factory.mktemp("installed")
    place = make_place(top)
    for name in FOLDERS:
        shutil.copytree(TOP / name, top / "source" / name, ignore=list_links)
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(TOP / name, top / "source")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--ignore-installed")
    done = place.call("-m", "pip", "install", *options, top / "source")
    assert done.returncode == 0, done.stderr
    return place


def list_links(folder: str, names: list[str]) -> list[str]:
    """Return the names of the links, which a fresh clone lacks."""
    return [name for name in names if Path(folder, name).is_symlink()]


def test_a_checkout_works_without_being_installed(tmp_path: Path) -> None:
    """As docs/gpu.md has it: by PYTHONPATH."""
    place = make_place(tmp_path)
    assert "No module named 'image_copies'" in place.call("-c", "import image_copies").stderr
    program = "import image_copies.data.errors as ours, data; print(data.MINE, ours.__file__)"
    done = place.call("-c", program, PYTHONPATH=str(TOP))
    assert done.stdout == f"True {TOP}/data/errors.py\n", done.stderr
    done = place.call(TOP / "pipeline" / "match.py", "pictures/P000000.jpg", "pictures/P000000.jpg", PYTHONPATH=str(TOP))
    assert done.returncode == 0, done.stderr


def test_one_name_is_installed_with_all_its_files(installed: Place) -> None:
    names = {path.name for path in installed.site.iterdir() if path.suffix not in (".pth", ".dist-info")}
    assert names == {"image_copies"}
    files = [path.relative_to(TOP) for name in FOLDERS for path in (TOP / name).rglob("*") if path.suffix != ".pyc"]
    wanted = {path.as_posix().removeprefix("image_copies/") for path in files if (TOP / path).is_file()}
    assert {"__init__.py", "models/shipped/descriptor.safetensors", "recipes/sample.yaml"} <= wanted
    assert {name for name in wanted if not (installed.site / "image_copies" / name).is_file()} == set()


def test_it_works_in_a_folder_with_packages_of_the_same_names_and_brings_its_recipes(installed: Place) -> None:
    program = "import image_copies.data.errors as ours, data, models; print(data.MINE, models.MINE, ours.__file__)"
    done = installed.call("-c", program)
    assert done.stdout == f"True True {installed.site}/image_copies/data/errors.py\n", done.stderr
    done = installed.call("-m", "image_copies.pipeline.match", "--help")
    assert done.returncode == 0 and "--queries" in done.stdout
    same, other = "pictures/P000000.jpg", "pictures/P000001.jpg"
    for pictures, code in (((same, same), 0), ((same, other), 1)):
        done = installed.call("-m", "image_copies.pipeline.match", *pictures)
        assert done.returncode == code, done.stderr
    (installed.folder / "loading.py").write_text(LOADING)
    done = installed.call("loading.py")
    assert done.returncode == 0, done.stderr
    done = installed.call("-m", "image_copies.pipeline.00_augment", "--run", "run", "--recipe", "none.yaml", "--data", ".")
    assert done.returncode == 2 and f"recipes are in {installed.site}/image_copies/recipes" in done.stderr


def test_what_is_missing_is_named_as_an_extra(installed: Place) -> None:
    """There is no file of requirements next to it."""
    program = "import sys; sys.modules['ray'] = None; from image_copies.pipeline.command import main; main()"
    done = installed.call("-c", program, "dedup", "--input", "pictures", "--output", "found", "--ray", "local")
    source = installed.site.parents[3] / "source"
    assert "Ray is not installed" in done.stderr and done.stderr.endswith(f"python -m pip install '{source}[cluster]'\n")
    done = installed.call("-c", "import image_copies; print(image_copies.__version__)")
    assert done.stdout == f"{find_version()}\n", done.stderr
