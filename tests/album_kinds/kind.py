"""Kinds of albums: small functions of a seed that write a few files and say which of them may go, and for which others."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Picture = Image.Image


@dataclass
class Album:
    """A folder of a kind of albums, and what is true of its files.

    Attributes:
        folder: Where the files lie.
        rng: Draws what differs between two albums of the kind.
        spare: Files that may go, each with those of which one has to stay for it; all others have to stay.
        expected: Sets of files and how many of each anybody would expect to go.
    """

    folder: Path
    rng: np.random.Generator
    spare: dict[Path, set[Path]] = field(default_factory=lambda: defaultdict(set))
    expected: list[tuple[frozenset[Path], int]] = field(default_factory=list)

    def save(self, picture: Picture, name: str, **options: Any) -> Path:
        """Save a picture; as JPEG of quality 92, unless told otherwise."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lossy = path.suffix in (".jpg", ".jpeg", ".webp", ".avif") and "lossless" not in options
        picture.save(path, **({"quality": 92} | options if lossy else options))
        return path

    def write(self, content: bytes, name: str) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def may_go(self, file: Path, *originals: Path) -> None:
        """A file may go where one of its originals stays for it."""
        self.spare[file].update(originals)

    def goes(self, file: Path, *originals: Path) -> None:
        """Anybody would expect that a file goes for one of its originals."""
        self.may_go(file, *originals)
        self.expected.append((frozenset({file}), 1))

    def one_stays(self, *files: Path) -> None:
        """Anybody would expect that one of these files stays, whichever, and that the others go."""
        for file in files:
            self.may_go(file, *(set(files) - {file}))
        self.expected.append((frozenset(files), len(files) - 1))

    def pick(self, *values: Any) -> Any:
        """Draw one of the values."""
        return values[int(self.rng.integers(len(values)))]

    def find_wrong(self, removed: Mapping[Path, Path]) -> list[str]:
        """Return, in words, what is wrong of removals of this folder's files, each with the file that stays instead."""
        own = {file: kept for file, kept in removed.items() if self.folder in file.parents}
        return [
            f"{file.name!r} goes for {kept.name!r}" + (", which goes, too" if kept in removed else "")
            for file, kept in sorted(own.items())
            if kept not in self.spare.get(file, ()) or kept in removed
        ]

    def find_missed(self, removed: Iterable[Path]) -> list[str]:
        """Return, in words, what anybody would expect to go, and does not."""
        gone = set(removed)
        return [
            f"of {sorted(file.name for file in files)} {len(files & gone)} go, not {count}"
            for files, count in self.expected
            if len(files & gone) != count
        ]
