"""The kinds of albums by family."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from tests.album_kinds import files, holdings, lookalikes, resaves, shots
from tests.album_kinds.kind import Album

Kind = Callable[[Album], None]


def list_kinds(module: ModuleType) -> dict[str, Kind]:
    """Return by name what makes an album: a module's functions of an album that return nothing, and those of its tables."""
    made = {
        name: make
        for name, make in vars(module).items()
        if getattr(make, "__annotations__", {}) == {"album": Album, "return": None}
    }
    return made | getattr(module, "TABLE", {})


FAMILIES = {module.__name__.rpartition(".")[2]: list_kinds(module) for module in (files, holdings, lookalikes, resaves, shots)}
KINDS = {name: make for kinds in FAMILIES.values() for name, make in kinds.items()}


def make_album(folder: Path, name: str, seed: int) -> Album:
    """Write an album of a kind into a folder of the kind's name."""
    album = Album(folder / name, np.random.default_rng([seed, *name.encode()]))
    album.folder.mkdir(parents=True)
    KINDS[name](album)
    return album
