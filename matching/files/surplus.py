"""What a file has that the one that is kept instead lacks: contents, notes, and files that belong to it.

Notes can be added to the XMP sidecar of the kept file.
"""

import filecmp
import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from image_copies.data.errors import ImageError
from image_copies.data.files import open_regular
from image_copies.data.remote import is_remote
from image_copies.data.sources.archives import read_image_bytes

from ..verification.contents import Contents, Note, Notes, list_missing, read_contents
from . import notes as file_notes
from .companions import find_companions
from .journal import MERGE, FileStep, LeftAloneError
from .notes import KEYWORDS

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


def join_words(words: Iterable[str]) -> str:
    """Return words with commas between them, of many the first ones."""
    listed = list(dict.fromkeys(words))
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + more


def describe_notes(notes: Notes) -> str:
    """Return what is noted in words."""
    keys = sorted(notes, key=lambda key: key not in file_notes.WORDS)
    return join_words(map(file_notes.describe, keys))


def list_sidecars(picture: Path) -> list[Path]:
    """Return the sidecars of a picture, `IMG_1.jpg.xmp` first, which no other picture of the name shares."""
    names = [name for name in find_companions(picture) if name.lower().endswith(SIDECAR)]
    ordered = sorted(names, key=lambda name: name != picture.name + SIDECAR)
    return [picture.with_name(name) for name in ordered]


def read_holdings(path: Path) -> Contents:
    """Read what a file holds, notes and has belonging to it.

    Raises:
        ImageError: it cannot be read.
    """
    content = read_image_bytes(path)
    sidecars = list_sidecars(path)
    others = [path.with_name(name) for name in find_companions(path)]
    return replace(
        read_contents(content),
        notes=file_notes.read_notes(content, sidecars),
        companions=tuple(other for other in others if other not in sidecars),
        attributes=read_attributes(path),
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


def find_surplus(kept: Contents | None, file: Contents | None) -> tuple[list[str], Notes]:
    """Return what a file has that the kept one lacks; of one that cannot be read, all that there may be.

    Returns:
        What can be kept in this file alone, in words that follow "it has", and what can be written next to the kept file.
    """
    if kept is None or file is None:
        return ["what cannot be read"], {}
    added, other = file_notes.find_missing(kept.notes, file.notes)
    lasting = [
        *list_missing(kept, file),
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
    return lasting, added


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
        lasting, notes = find_surplus(*held)
        if alone and lasting:
            raise LeftAloneError(f"it has {join_words(lasting)}, unlike the kept file")
        if not notes:
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
        wanted = {**said, **notes}
        if KEYWORDS in notes and KEYWORDS in held[0].notes:  # those of a sidecar replace the picture's
            wanted[KEYWORDS] = ("Bag", *held[0].notes[KEYWORDS][1:], *notes[KEYWORDS][1:])
        content = format_sidecar(wanted)
        digest = hashlib.sha256(content.encode()).hexdigest()
        return FileStep(MERGE, sidecar, sidecar, kept, digest, before=before), content
    except (OSError, ValueError, ImageError) as error:
        raise LeftAloneError(f"its notes cannot be added to {sidecar}: {error}") from error


def format_sidecar(notes: Notes) -> str:
    """Return the text of a sidecar that notes this, always in one way; empty for nothing.

    Raises:
        ValueError: It cannot be written.
    """
    if not notes or any(form == "structure" for form, *_ in notes.values()):
        return ""
    prefixes = sorted({key.partition(":")[0] for key in notes})
    names = " ".join(f"xmlns:{prefix}={quoteattr(file_notes.SPACES[prefix])}" for prefix in prefixes)
    text = PACKET.format(names=names, notes="".join(_write(*noted) for noted in sorted(notes.items())))
    if file_notes.find_missing(file_notes.parse_xmp(text.encode()), notes) != ({}, []):
        raise ValueError(f"{', '.join(map(file_notes.describe, notes))} cannot be written")
    return text


def _write(key: file_notes.Key, note: Note) -> str:
    form, *noted = note
    values = [
        escape(_format_degrees(float(value), key) if key in file_notes.PLACE else value) for value in noted
    ]
    if form == "Alt":  # of texts in several languages, which are which is not known
        return f'<{key}><rdf:Alt><rdf:li xml:lang="x-default">{values[0]}</rdf:li></rdf:Alt></{key}>\n'
    if form:
        items = "".join(f"<rdf:li>{value}</rdf:li>" for value in values)
        return f"<{key}><rdf:{form}>{items}</rdf:{form}></{key}>\n"
    return f"<{key}>{values[0]}</{key}>\n"


def _format_degrees(value: float, key: file_notes.Key) -> str:
    degrees, rest = divmod(round(abs(value) * 60, 6), 60)
    return f"{degrees:.0f},{rest:.6f}{('NS' if key == file_notes.LATITUDE else 'EW')[value < 0]}"
