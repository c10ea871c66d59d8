"""Provenance of results: fingerprints of recipe and data, the commit of the code, versions of Python and of packages, threads."""

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from image_copies.data.images import ImageSet
from image_copies.data.installation import find_version

PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "augly",
    "faiss-gpu",
    "faiss-cpu",
    "numpy",
    "pillow",
    "opencv-python-headless",
    "scikit-learn",
    "h5py",
)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed PACKAGES by name, without importing them."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def code_version() -> str:
    """Return the git description of the code; without git the version of the package, or "unknown"."""
    here = Path(__file__)
    try:
        _ask_git(here.parent, "ls-files", "--error-unmatch", here.name)  # an environment may lie in a checkout of something else
        return _ask_git(here.parent, "describe", "--always", "--dirty")
    except (OSError, subprocess.SubprocessError):
        pass
    try:
        return find_version()
    except PackageNotFoundError:
        return "unknown"


def _ask_git(folder: Path, *arguments: str) -> str:
    """Return git's answer in a folder; subprocess.SubprocessError when it refuses."""
    answer = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True)
    return answer.stdout.strip()


def count_threads() -> int | None:
    """Return the number of threads of a product of matrices, which splits its sums among them; None if torch was not needed."""
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def fingerprint_images(images: ImageSet) -> list[Any]:
    """Return the number of images, and a digest of their ids and file sizes, which a copy of the data set keeps."""
    return [len(images), images.digest(times=False)]


def describe_origin(**made_from: Any) -> dict[str, Any]:
    """Return what a result was made from, and the versions of the code and of the packages, as it is written with the result."""
    return made_from | {"code": code_version(), "versions": versions()}
