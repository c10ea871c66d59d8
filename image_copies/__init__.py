"""Finds edited copies of images. Every package of the project is imported by this name: `image_copies.data` and the others."""

from pathlib import Path

# An installation has the packages in this folder. In a checkout they are next to it, and this folder has at most links to them,
# for type checkers and editors; nothing is imported through a link, so that each module has one path.
_here = Path(__file__).parent
if (_here / "data").is_symlink() or not (_here / "data").is_dir():
    __path__[:] = [str(_here.parent)]
