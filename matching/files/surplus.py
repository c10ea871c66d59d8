"""What a file has that the one that is kept instead lacks: contents, notes, and files that belong to it."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from image_copies.data.files import digest_file, is_there
from image_copies.data.remote import is_remote
from image_copies.data.sources.archives import find_archive, read_image_bytes
from image_copies.matching.files.companions import find_companions
from image_copies.matching.files.notes import (
    WORDS,
    Key,
    Note,
    Notes,
    describe,
    find_missing,
    read_notes,
    read_sidecars,
)
from image_copies.matching.verification.contents import Contents, list_missing, read_contents

SIDECAR = ".xmp"
DOWNLOADED = ("user.xdg.origin.", "user.xdg.referrer.", "user.mime_type")  # attributes that programs write
MAX_NAMED = 6  # of what a file has, in a reason


@dataclass(frozen=True)
class Holdings:
    """What a file holds, what it and its sidecars note, further files that belong to it, and its extended attributes."""

    contents: Contents
    notes: Notes
    companions: tuple[Path, ...]
    attributes: Mapping[str, bytes]


@dataclass(frozen=True)
class Surplus:
    """What a file has that the kept one lacks, in words that follow "it has".

    Attributes:
        lasting: What can be kept in this file alone.
        notes: What can be written next to the kept file.
    """

    lasting: tuple[str, ...] = ()
    notes: Mapping[Key, Note] = field(default_factory=dict)

    @property
    def noted(self) -> str:
        """The notes in words."""
        return join_words(map(describe, sorted(self.notes, key=lambda key: key not in WORDS)))


def join_words(words: Iterable[str]) -> str:
    """Return words with commas between them, of many the first ones."""
    listed = list(dict.fromkeys(words))
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + more


def list_sidecars(picture: Path) -> list[Path]:
    """Return the sidecars of a picture, `IMG_1.jpg.xmp` first, which no other picture of the name shares."""
    if is_remote(picture) or (not is_there(picture) and find_archive(picture) is not None):
        return []
    own = name_sidecar(picture)
    found = (
        picture.with_name(name)
        for name in find_companions(picture)
        if PurePath(name).suffix.lower() == SIDECAR
    )
    return [*([own] if is_there(own) else []), *(path for path in found if path != own)]


def name_sidecar(picture: Path) -> Path:
    """Return the sidecar that is written for a picture that has none."""
    return picture.with_name(picture.name + SIDECAR)


def read_holdings(path: Path) -> Holdings:
    """Read what a file holds and what belongs to it.

    Raises:
        ImageError: it cannot be read.
    """
    content = read_image_bytes(path)
    sidecars = list_sidecars(path)
    notes = read_notes(content)
    for key, note in read_sidecars(sidecars).items():
        known = notes.get(key, Note((), note.form))
        notes[key] = Note(tuple(dict.fromkeys((*known.values, *note.values))), note.form)
    local = not is_remote(path) and is_there(path)
    others = [path.with_name(name) for name in find_companions(path)] if local else []
    companions = tuple(other for other in others if other not in sidecars)
    return Holdings(read_contents(content), notes, companions, read_attributes(path))


def read_attributes(path: Path) -> dict[str, bytes]:
    """Return the extended attributes in which desktops keep tags, ratings and comments of a file; {} where there are none."""
    if is_remote(path) or not hasattr(os, "listxattr"):
        return {}
    try:
        names = [
            name
            for name in os.listxattr(path)
            if name.startswith("user.") and not name.startswith(DOWNLOADED)
        ]
        return {name: os.getxattr(path, name) for name in names}
    except OSError:  # a file system without any
        return {}


def find_surplus(kept: Holdings | None, file: Holdings | None) -> Surplus:
    """Return what a file has that the kept one lacks; of one that cannot be read, all that there may be."""
    if kept is None or file is None:
        return Surplus(("what cannot be read",))
    added, other = find_missing(kept.notes, file.notes)
    lasting = [
        *list_missing(kept.contents, file.contents),
        *(f"{describe(key)} of its own" for key in other),
        *(
            f"the attribute {name}"
            for name, value in file.attributes.items()
            if kept.attributes.get(name) != value
        ),
        *(
            path.name
            for path in file.companions
            if not any(_is_equal(path, theirs) for theirs in kept.companions)
        ),
    ]
    return Surplus(tuple(lasting), added)


def _is_equal(one: Path, other: Path) -> bool:
    """Whether two files that belong to pictures, such as films, are of one kind and hold the same bytes."""
    try:
        same_size = one.suffix.lower() == other.suffix.lower() and one.stat().st_size == other.stat().st_size
        return same_size and digest_file(one) == digest_file(other)
    except OSError:
        return False
