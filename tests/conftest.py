"""What every test shares: no hub, one thread, and the optional folder of real photos."""

import os
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
