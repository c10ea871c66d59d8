"""The versions of what computes: Python and the packages that figures depend on."""

import platform
from importlib.metadata import PackageNotFoundError, version

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
    """Name → version of Python and of those packages that are installed; none of them is imported."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
