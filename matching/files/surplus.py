"""What a file has that the one that is kept instead lacks: contents, notes, and files that belong to it.

Notes can be added to the XMP sidecar of the kept file.
"""

import filecmp
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from image_copies.data.errors import ImageError
from image_copies.data.files import open_regular
from image_copies.data.remote import is_remote
from image_copies.data.sources.archives import read_image_bytes

from ..verification.contents import Contents, list_missing, read_contents
from . import notes as file_notes
from .companions import find_companions
from .journal import MERGE, FileStep, LeftAloneError

SIDECAR = ".xmp"
DOWNLOADED = ("user.xdg.origin.", "user.xdg.referrer.", "user.mime_type")  # attributes that programs write
MAX_NAMED = 6  # of what a file has, in a reason
PACKET = f'''<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="{file_notes.RDF}">
<rdf:Description rdf:about="" {{names}}>
{{notes}}</rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
'''


@dataclass(frozen=True)
class Holdings:
    """What a file holds, what it and its sidecars note, further files that belong to it, and its extended attributes."""

    contents: Contents
    notes: file_notes.Notes
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
    notes: Mapping[file_notes.Key, file_notes.Note] = field(default_factory=dict)

    @property
    def noted(self) -> str:
        """The notes in words."""
        return join_words(
            map(file_notes.describe, sorted(self.notes, key=lambda key: key not in file_notes.WORDS))
        )


def join_words(words: Iterable[str]) -> str:
    """Return words with commas between them, of many the first ones."""
    listed = list(dict.fromkeys(words))
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + more


def list_sidecars(picture: Path) -> list[Path]:
    """Return the sidecars of a picture, `IMG_1.jpg.xmp` first, which no other picture of the name shares."""
    names = [name for name in find_companions(picture) if name.lower().endswith(SIDECAR)]
    ordered = sorted(names, key=lambda name: name != picture.name + SIDECAR)
    return [picture.with_name(name) for name in ordered]


def read_holdings(path: Path) -> Holdings:
    """Read what a file holds and what belongs to it.

    Raises:
        ImageError: it cannot be read.
    """
    content = read_image_bytes(path)
    sidecars = list_sidecars(path)
    others = [path.with_name(name) for name in find_companions(path)]
    companions = tuple(other for other in others if other not in sidecars)
    return Holdings(
        read_contents(content), file_notes.read_notes(content, sidecars), companions, read_attributes(path)
    )


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
    added, other = file_notes.find_missing(kept.notes, file.notes)
    lasting = [
        *list_missing(kept.contents, file.contents),
        *(f"{file_notes.describe(key)} of its own" for key in other),
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
    if one.suffix.lower() != other.suffix.lower():
        return False
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def plan_merge(
    file: Path, kept: Path, alone: bool, is_protected: Callable[[Path], bool]
) -> tuple[FileStep, str] | None:
    """Return the step that writes notes next to the kept file before another one goes, and what it writes; None for nothing.

    Args:
        file: The file that goes.
        kept: The one that is kept.
        alone: Whether it goes only because its notes are all that it has and the kept one lacks.
        is_protected: Whether nothing may be written to a path.

    Raises:
        LeftAloneError: That cannot be written, or the file has more.
    """
    sidecar = next(iter(list_sidecars(kept)), kept.with_name(kept.name + SIDECAR))
    try:
        held = read_holdings(kept), read_holdings(file)
        surplus = find_surplus(*held)
        if alone and surplus.lasting:
            raise LeftAloneError(f"it has {join_words(surplus.lasting)}, unlike the kept file")
        if not surplus.notes:
            return None
        if is_protected(kept) or is_protected(sidecar):
            raise LeftAloneError(f"{kept} is protected, and its notes are not written next to it")
        before = ""
        if os.path.lexists(sidecar):
            with open_regular(sidecar) as opened:
                before = opened.read().decode()
        said = file_notes.parse_xmp(before.encode()) if before else {}
        if sidecar.is_symlink() or format_sidecar(said) != before:
            raise LeftAloneError(
                f"its notes cannot be added to {sidecar}, which this program has not written"
            )
        wanted = {**said, **surplus.notes}
        if (
            file_notes.KEYWORDS in surplus.notes and file_notes.KEYWORDS in held[0].notes
        ):  # those of a sidecar replace the picture's
            joined = held[0].notes[file_notes.KEYWORDS].values + surplus.notes[file_notes.KEYWORDS].values
            wanted[file_notes.KEYWORDS] = file_notes.Note(joined, "Bag")
        content = format_sidecar(wanted)
        digest = hashlib.sha256(content.encode()).hexdigest()
        return FileStep(MERGE, sidecar, sidecar, kept, digest, before=before), content
    except (OSError, ValueError, ImageError) as error:
        raise LeftAloneError(f"its notes cannot be added to {sidecar}: {error}") from error


def format_sidecar(notes: file_notes.Notes) -> str:
    """Return the text of a sidecar that notes this, always in one way; empty for nothing.

    Raises:
        ValueError: It cannot be written.
    """
    if not notes or any(note.form == "structure" for note in notes.values()):
        return ""
    prefixes = sorted({key.partition(":")[0] for key in notes})
    names = " ".join(f"xmlns:{prefix}={quoteattr(file_notes.SPACES[prefix])}" for prefix in prefixes)
    text = PACKET.format(names=names, notes="".join(_write(*noted) for noted in sorted(notes.items())))
    if file_notes.find_missing(file_notes.parse_xmp(text.encode()), notes) != ({}, []):
        raise ValueError(f"{', '.join(map(file_notes.describe, notes))} cannot be written")
    return text


def _write(key: file_notes.Key, note: file_notes.Note) -> str:
    values = [
        escape(_format_degrees(float(value), key) if key in file_notes.PLACE else value)
        for value in note.values
    ]
    if note.form == "Alt":  # of texts in several languages, which are which is not known
        return f'<{key}><rdf:Alt><rdf:li xml:lang="x-default">{values[0]}</rdf:li></rdf:Alt></{key}>\n'
    if note.form:
        items = "".join(f"<rdf:li>{value}</rdf:li>" for value in values)
        return f"<{key}><rdf:{note.form}>{items}</rdf:{note.form}></{key}>\n"
    return f"<{key}>{values[0]}</{key}>\n"


def _format_degrees(value: float, key: file_notes.Key) -> str:
    degrees, rest = divmod(round(abs(value) * 60, 6), 60)
    return f"{degrees:.0f},{rest:.6f}{('NS' if key == file_notes.LATITUDE else 'EW')[value < 0]}"
