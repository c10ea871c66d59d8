"""How messages name commands, as the user called them, and what installs more of the project; the installed version."""

import json
import re
import sys
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


PROGRAM = "image-copies"
TASKS = {
    "match": "match",
    "explore": "explore",
    "export": "export",
    "deduplicate": "dedup",
    "02_embed": "embed",
    "06_score": "score",
}  # of each script
MODULES = "image_copies.pipeline."


def name_command(script: str) -> str:
    """Return the command of a script of pipeline/, such as "match" or "05_submit", in the form in which this program was called.

    It is `image-copies match`, `python -m image_copies.pipeline.match`, or `python pipeline/match.py` with the folder as typed.
    """
    called = Path(sys.argv[0])
    if _is_program():
        return f"{PROGRAM} {TASKS[script]}" if script in TASKS else f"python -m {MODULES}{script}"
    if any(argument.startswith(MODULES) for argument in sys.orig_argv[1:3]):  # python -m
        return f"python -m {MODULES}{script}"
    folder = (
        called.parent
        if called.suffix == ".py" and called.absolute().parent.name == "pipeline"
        else Path("pipeline")
    )
    return f"python {folder / script}.py"


def name_review() -> str:
    """Return the command that shows results on a page, to be followed by their folder."""
    return f"{PROGRAM} review" if _is_program() else f"{name_command('explore')} --matches"


def describe_command(description: str | None) -> str | None:
    """Return a script's description with `image-copies match` for match.py, if that is how the user called it."""
    if description is None or not _is_program():
        return description
    scripts = re.compile(rf"\b({'|'.join(TASKS)})\.py\b")
    return scripts.sub(lambda found: name_command(found[1]), description)


def _is_program() -> bool:
    return Path(sys.argv[0]).stem == PROGRAM
