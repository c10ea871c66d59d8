"""Provenance of results: the commit of the code, and the versions of Python and of the packages that scores depend on."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DISTRIBUTION = "image-copy-detection"
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
    """Return the git description of the code; outside a checkout the installed package's version, or "unknown"."""
    top = Path(__file__).parents[2]
    try:
        answer = subprocess.run(
            ["git", "-C", str(top), "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10, check=True
        )
        return answer.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
