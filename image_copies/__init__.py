"""Finds edited copies of images: `find_copies(folder)`, `compare(a, b)`, `embed(pictures)`, `score(…)`, `normalize(…)`.

Every package of the project is imported by this name: `image_copies.data` and the others.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from image_copies.matching.commands.interface import compare, embed, find_copies, rows_to_keep
    from image_copies.submissions.scoring.any_vectors import normalize, score

    __version__: str

__all__ = ["compare", "embed", "find_copies", "normalize", "rows_to_keep", "score"]

# An installation has the packages in this folder. In a checkout they are next to it, and this folder has at most links to them,
# for type checkers and editors; nothing is imported through a link, so that each module has one path.
_here = Path(__file__).parent
if (_here / "data").is_symlink() or not (_here / "data").is_dir():
    __path__[:] = [str(_here.parent)]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # a type checker that saw it would take any misspelt name for right

    def __getattr__(name: str) -> Any:
        """Import the functions when they are used: they need the networks, the packages below do not."""
        if name == "__version__":
            return import_module("image_copies.data.commands").find_version()
        if name not in __all__:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__dir__())}"
            )
        module = (
            "submissions.scoring.any_vectors"
            if name in ("normalize", "score")
            else "matching.commands.interface"
        )
        return getattr(import_module(f"image_copies.{module}"), name)
