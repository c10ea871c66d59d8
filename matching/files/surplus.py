"""What a file has that the one that is kept instead lacks: contents, notes, and files that belong to it.

Notes can be added to the XMP sidecar of the kept file.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from xml.sax.saxutils import escape, quoteattr

from image_copies.data.errors import ImageError
from image_copies.data.files import digest_file, is_there, whole_file
from image_copies.data.remote import is_remote
from image_copies.data.sources.archives import find_archive, read_image_bytes

from ..verification.contents import Contents, list_missing, read_contents
from .companions import find_companions
from .journal import LeftAloneError
from .notes import (
    KEYWORDS,
    LATITUDE,
    LONGITUDE,
    PLACE,
    RATING,
    RDF,
    SPACES,
    WORDS,
    Key,
    Note,
    Notes,
    describe,
    find_missing,
    list_properties,
    parse_xmp,
    read_notes,
)

SIDECAR = ".xmp"
DOWNLOADED = ("user.xdg.origin.", "user.xdg.referrer.", "user.mime_type")  # attributes that programs write
MAX_NAMED = 6  # of what a file has, in a reason
NEW = f'''<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="{RDF}">
</rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
'''
END = re.compile(r"</([\w.-]+:)?RDF\s*>(?!.*</(?:[\w.-]+:)?RDF\s*>)", re.DOTALL)
ABOUT = re.compile(r"""<rdf:Description\b[^>]*?\brdf:about\s*=\s*("[^"]*"|'[^']*')""")
SUBJECT = re.compile(
    r"(<dc:subject\b[^>]*>\s*<rdf:(Bag|Seq)\b[^>]*>(?:(?!</dc:subject).)*?)(</rdf:\2\s*>)", re.DOTALL
)
NO_RATING = re.compile(r"""\s+xmp:Rating\s*=\s*(?:"0"|'0')|<xmp:Rating>\s*0?\s*</xmp:Rating>""")


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
    local = not is_remote(path) and is_there(path)
    others = [path.with_name(name) for name in find_companions(path)] if local else []
    companions = tuple(other for other in others if other not in sidecars)
    return Holdings(read_contents(content), read_notes(content, sidecars), companions, read_attributes(path))


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


@dataclass(frozen=True)
class Merge:
    """A sidecar, its text, empty where there is none, and that which it is to have."""

    sidecar: Path
    before: str
    after: str


def plan_merge(file: Path, kept: Path, alone: bool, is_protected: Callable[[Path], bool]) -> Merge | None:
    """Return what is to be written next to the kept file before another one goes; None where that notes nothing more.

    Args:
        file: The file that goes.
        kept: The one that is kept.
        alone: Whether it goes only because its notes are all that it has and the kept one lacks.
        is_protected: Whether nothing may be written to a path.

    Raises:
        LeftAloneError: That cannot be written, or the file has more.
    """
    sidecar = next(iter(list_sidecars(kept)), name_sidecar(kept))
    try:
        held = read_holdings(kept), read_holdings(file)
        surplus = find_surplus(*held)
        if alone and surplus.lasting:
            raise LeftAloneError(f"it has {join_words(surplus.lasting)}, unlike the kept file")
        if not surplus.notes:
            return None
        if is_protected(kept) or is_protected(sidecar):
            raise LeftAloneError(f"{kept} is protected, and its notes are not written next to it")
        if os.path.lexists(sidecar) and (sidecar.is_symlink() or not sidecar.is_file()):
            raise LeftAloneError(f"{sidecar} is no regular file, to which its notes could be added")
        before = sidecar.read_bytes().decode() if is_there(sidecar) else ""
        return Merge(sidecar, before, add_notes(before, surplus.notes, held[0].notes))
    except ValueError as error:  # of UnicodeError, too
        raise LeftAloneError(f"its notes cannot be added to {sidecar}: {error}") from error
    except (OSError, ImageError) as error:
        raise LeftAloneError(f"its notes cannot be read or written ({error})") from error


def write_sidecar(sidecar: Path, content: bytes) -> None:
    """Write a sidecar whole, with the rights of the one that was there.

    Raises:
        OSError: It cannot be written.
        UserError: The disk is full.
    """
    mode = sidecar.stat().st_mode if is_there(sidecar) else None
    with whole_file(sidecar) as temporary:
        temporary.write_bytes(content)
        if mode is not None:
            temporary.chmod(mode & 0o7777)


def add_notes(sidecar: str, notes: Mapping[Key, Note], known: Notes) -> str:
    """Return the text of a sidecar with further notes; all that it says stays as it is.

    Args:
        sidecar: The text of the sidecar; empty where there is none.
        notes: What to add.
        known: What the picture and its sidecar note. Keywords of the picture are written, too: those of a sidecar replace them.

    Raises:
        ValueError: it is no XMP, or not written in a way in which something can be added.
    """
    before = sidecar or NEW
    said = parse_xmp(before.encode())
    added = {key: note for key, note in notes.items() if key != KEYWORDS}
    if KEYWORDS in notes:
        before = _add_keywords(before, known.get(KEYWORDS, Note(())), notes[KEYWORDS], added)
    if RATING in notes:
        before = NO_RATING.sub("", before)
    there = list_properties(before.encode())  # programs refuse a packet that has a property twice
    about = ABOUT.search(before)
    prefixes = sorted({key.partition(":")[0] for key in added})
    names = [f"xmlns:{prefix}={quoteattr(SPACES[prefix])}" for prefix in prefixes]
    description = (
        f'<rdf:Description xmlns:rdf="{RDF}" {" ".join(names)} rdf:about={about[1] if about else quoteattr("")}>\n'
        f"{''.join(_write(key, note) for key, note in added.items())}</rdf:Description>\n"
    )
    after, places = END.subn(lambda end: description + end[0], before) if added else (before, 1)
    missing = [find_missing(parse_xmp(after.encode()), wanted) for wanted in (notes, said)]
    if not places or there & added.keys() or missing != [({}, []), ({}, [])]:
        raise ValueError(f"{', '.join(map(describe, notes))} cannot be added to the way it is written")
    return after


def _add_keywords(sidecar: str, known: Note, new: Note, added: dict[Key, Note]) -> str:
    """Add keywords to those that the sidecar lists; where it lists none, they join what is `added`, with those of the picture."""
    listed, lists = SUBJECT.subn(lambda found: found[1] + _list(new.values) + found[3], sidecar, count=1)
    if not lists:
        added[KEYWORDS] = Note(tuple(dict.fromkeys((*known.values, *new.values))), "Bag")
    return listed


def _write(key: Key, note: Note) -> str:
    if key == PLACE:
        latitude, longitude = (float(part) for part in note.values[0].split())
        parts = (LATITUDE, _format_degrees(latitude, "NS")), (LONGITUDE, _format_degrees(longitude, "EW"))
        return "".join(f"<{name}>{value}</{name}>\n" for name, value in parts)
    if not note.form:
        return f"<{key}>{escape(note.values[0])}</{key}>\n"
    items = _list(note.values, languages=note.form == "Alt")
    return f"<{key}><rdf:{note.form}>{items}</rdf:{note.form}></{key}>\n"


def _list(values: tuple[str, ...], languages: bool = False) -> str:
    names = ["x-default", *(f"x-{number}" for number in range(2, len(values) + 1))]
    said = [f' xml:lang="{name}"' if languages else "" for name in names]
    return "".join(
        f"<rdf:li{language}>{escape(value)}</rdf:li>" for language, value in zip(said, values, strict=False)
    )


def _format_degrees(value: float, marks: str) -> str:
    degrees, rest = divmod(round(abs(value) * 60, 6), 60)
    return f"{degrees:.0f},{rest:.6f}{marks[value < 0]}"
