"""Which version of the project this is, and how to install more of it: no package index has a distribution of its name."""

import json
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

DISTRIBUTION = "image-copy-detection"
TOP = Path(__file__).parents[1]  # with pyproject.toml in a checkout


def find_version() -> str:
    """Return the project's version: that of pyproject.toml in a checkout, otherwise of what is installed.

    Raises:
        PackageNotFoundError: It is neither.
    """
    described = TOP / "pyproject.toml"
    if not described.is_file():
        return version(DISTRIBUTION)
    return str(tomllib.loads(described.read_text(encoding="utf-8"))["project"]["version"])


def name_install(extra: str) -> str:
    """Return the command that installs what an extra of pyproject.toml brings, from the folder that the project came from."""
    if (TOP / "pyproject.toml").is_file():
        return f"python -m pip install -e '{'.' if Path.cwd() == TOP else TOP}[{extra}]'"
    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}").get("url", "")
    except PackageNotFoundError:
        origin = ""
    source = url2pathname(urlparse(origin).path)
    if origin.startswith("file:") and Path(source).is_dir():
        return f"python -m pip install '{source}[{extra}]'"
    return f"python -m pip install '.[{extra}]' (in the folder that holds the project's pyproject.toml)"
