"""The XMP sidecar of a kept file, to which is added what another file notes and the kept one lacks."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from image_copies.data.errors import ImageError
from image_copies.data.files import is_there, whole_file
from image_copies.matching.files.journal import LeftAloneError
from image_copies.matching.files.notes import (
    KEYWORDS,
    LATITUDE,
    LONGITUDE,
    PLACE,
    RATING,
    RDF,
    SPACES,
    Key,
    Note,
    Notes,
    describe,
    find_missing,
    list_properties,
    parse_xmp,
)
from image_copies.matching.files.surplus import (
    find_surplus,
    join_words,
    list_sidecars,
    name_sidecar,
    read_holdings,
)

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
