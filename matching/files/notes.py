"""What people and cameras noted about a picture, in its file and in its XMP sidecar: date, place, captions, author, keywords."""

import io
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from PIL import ExifTags, Image, ImageFile, IptcImagePlugin, PngImagePlugin

from image_copies.data.files import open_regular
from image_copies.data.formats import SIGNATURE_BYTES, readable_formats

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC, XMP, EXIF = "http://purl.org/dc/elements/1.1/", "http://ns.adobe.com/xap/1.0/", "http://ns.adobe.com/exif/1.0/"
PHOTOSHOP, CORE = "http://ns.adobe.com/photoshop/1.0/", "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/"
AUX = "http://ns.adobe.com/exif/1.0/aux/"
PREFIXES = {
    DC: "dc",
    XMP: "xmp",
    EXIF: "exif",
    AUX: "aux",
    PHOTOSHOP: "photoshop",
    CORE: "Iptc4xmpCore",
    "http://iptc.org/std/Iptc4xmpExt/2008-02-29/": "Iptc4xmpExt",
    "http://ns.adobe.com/xap/1.0/rights/": "xmpRights",
    "http://ns.adobe.com/lightroom/1.0/": "lr",
    "http://www.digikam.org/ns/1.0/": "digiKam",
    "http://ns.acdsee.com/iptc/1.0/": "acdsee",
    "http://www.metadataworkinggroup.com/schemas/regions/": "mwg-rs",
    "http://www.metadataworkinggroup.com/schemas/keywords/": "mwg-kw",
    "http://ns.microsoft.com/photo/1.2/": "MP",
}
# begin the namespaces in which nobody notes anything: how a file came about, parts of structures, what cameras and programs write
TECHNICAL = (
    *("http://www.w3.org/", "adobe:ns:meta/", "http://cipa.jp/", "http://ns.adobe.com/tiff/", "http://ns.adobe.com/pdf/"),
    *("http://ns.adobe.com/xap/1.0/mm/", "http://ns.adobe.com/xap/1.0/g/", "http://ns.adobe.com/xap/1.0/t/"),
    *("http://ns.adobe.com/xap/1.0/sType/", "http://ns.adobe.com/xmp/sType/", "http://ns.adobe.com/xmp/note/"),
    *("http://ns.adobe.com/illustrator/", "http://ns.adobe.com/hdr-gain-map/", "http://ns.apple.com/", "http://www.gimp.org/"),
    *("http://ns.attribution.com/", "http://www.dji.com/", "http://ns.microsoft.com/photo/1.2/t/"),
)
DEVELOPED = "http://ns.adobe.com/camera-raw-settings/1.0/", "http://darktable.sf.net/"
SHOWN_SO = "http://ns.google.com/photos/"  # begins the namespaces of panoramas, depth maps and what is embedded with them
Key = tuple[str, str]  # namespace and name of an XMP property
Form = Literal["", "Alt", "Seq", "Bag", "structure"]
PLACE, LATITUDE, LONGITUDE = (EXIF, "GPS"), (EXIF, "GPSLatitude"), (EXIF, "GPSLongitude")
TAKEN, DIGITIZED = DATES = (EXIF, "DateTimeOriginal"), (EXIF, "DateTimeDigitized")  # the latter often is the only date of a scan
CAPTION, TITLE, COMMENT, HEADLINE = (DC, "description"), (DC, "title"), (EXIF, "UserComment"), (PHOTOSHOP, "Headline")
EXPOSURE, LENS = (EXIF, "ExposureTime"), (AUX, "Lens")
AUTHOR, RIGHTS, KEYWORDS, RATING = (DC, "creator"), (DC, "rights"), (DC, "subject"), (XMP, "Rating")
TEXTS = CAPTION, TITLE, COMMENT, HEADLINE  # a text may stand in any of them
WORDS: dict[Key, str] = {
    TAKEN: "the date on which it was taken",
    DIGITIZED: "the date on which it was digitized",
    PLACE: "a GPS position",
    EXPOSURE: "an exposure time",
    LENS: "the name of its lens",
    CAPTION: "a caption",
    TITLE: "a title",
    COMMENT: "a comment",
    HEADLINE: "a headline",
    AUTHOR: "an author",
    RIGHTS: "a copyright note",
    KEYWORDS: "keywords",
    RATING: "a rating",
    (XMP, "Label"): "a label",
}
FORMS: dict[Key, Form] = {CAPTION: "Alt", TITLE: "Alt", RIGHTS: "Alt", COMMENT: "Alt", AUTHOR: "Seq", KEYWORDS: "Bag"}
# of these namespaces other properties say nothing that people noted: dates of files, programs, the camera's settings
NOTED: dict[str, set[str]] = {
    DC: {"description", "title", "rights", "creator", "subject"},
    XMP: {"Rating", "Label"},
    EXIF: {"DateTimeOriginal", "DateTimeDigitized", "GPSLatitude", "GPSLongitude", "UserComment", "ExposureTime"},
    AUX: {"Lens"},
    "http://ns.adobe.com/xmp/1.0/DynamicMedia/": {"scene", "shotName", "shotLocation", "logComment"},
    "http://ns.microsoft.com/photo/1.0/": {"LastKeywordXMP", "LastKeywordIPTC"},
    PHOTOSHOP: {"Headline", "City", "State", "Country", "Instructions", "Credit", "Source", "DateCreated"},
}
IPTC: dict[tuple[int, int], Key] = {
    (2, 5): TITLE,
    (2, 25): KEYWORDS,
    (2, 80): AUTHOR,
    (2, 90): (PHOTOSHOP, "City"),
    (2, 92): (CORE, "Location"),
    (2, 95): (PHOTOSHOP, "State"),
    (2, 101): (PHOTOSHOP, "Country"),
    (2, 105): HEADLINE,
    (2, 116): RIGHTS,
    (2, 120): CAPTION,
}
TAGS: dict[int, Key] = {
    ExifTags.Base.ImageDescription: CAPTION,
    ExifTags.Base.DocumentName: TITLE,
    ExifTags.Base.Artist: AUTHOR,
    ExifTags.Base.Copyright: RIGHTS,
    ExifTags.Base.Rating: RATING,
    ExifTags.Base.XPTitle: TITLE,
    ExifTags.Base.XPComment: COMMENT,
    ExifTags.Base.XPAuthor: AUTHOR,
    ExifTags.Base.XPSubject: CAPTION,
}
INFO: dict[str, Key] = {
    "Title": TITLE,
    "Description": CAPTION,
    "Comment": COMMENT,
    "comment": COMMENT,
    "parameters": COMMENT,  # of what a model has drawn
    "Author": AUTHOR,
    "Copyright": RIGHTS,
}
# what cameras and programs write where people write captions and comments
NOT_WRITTEN_BY_PEOPLE = re.compile(
    r"\W*$|.*digital camera\W*$|exif_jpeg|dcim|sony dsc|samsung$|<kenox|charset=|screenshot$|creator: gd|created with|lead tech"
    r"|file written by|.*optimi[sz]e|.*compress|applemark|imageready|ducky|handmade software|processed by|intel\(r\)|xs_"
    r"|\{|fbt:|oplus|lavc|\S+\.(?:tiff?|jpe?g|png|bmp|psd)$",
    re.IGNORECASE,
)
# text chunks that say nothing of the picture, or say it again
NOT_NOTED_BY_PEOPLE = re.compile(
    r"software$|creation time$|xml:com|raw profile|[a-z]+:|signature$|source$|disclaimer$|warning$|thumb::", re.IGNORECASE
)
DATE = re.compile(r"(\d{4})[:-](\d\d)[:-](\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?")
DEGREES = re.compile(r"(\d+),([\d.]+)(?:,([\d.]+))?([NSEW])")
MAX_APART = 2e-4  # degrees by which two ways to write one position differ
MAX_DENOMINATOR = 100_000  # of an exposure time, which programs write as 1/60 s, or as ten millionths
MAX_SIDECAR_BYTES = 20_000_000


@dataclass(frozen=True)
class Note:
    """The values of a property, in order, and how XMP holds them."""

    values: tuple[str, ...]
    form: Form = ""


Notes = Mapping[Key, Note]


def describe(key: Key) -> str:
    """Return what a property is called, with its article."""
    return WORDS.get(key, f"the note {key[1]}")


def parse_xmp(packet: bytes) -> dict[Key, Note]:
    """Return what people noted in an XMP packet, and how its picture was developed.

    Raises:
        ValueError: it is no XMP.
    """
    found: dict[Key, Note] = {}
    for key, note in _iterate_properties(packet):
        _add(found, key, note)
    return _make_place(found)


def list_properties(packet: bytes) -> set[Key]:
    """Return all properties of an XMP packet, also those that say nothing.

    Raises:
        ValueError: it is no XMP.
    """
    found = {key for key, _ in _iterate_properties(packet)}
    return found | {PLACE} if LATITUDE in found or LONGITUDE in found else found


def _iterate_properties(packet: bytes) -> Iterator[tuple[Key, Note]]:
    if b"<!DOCTYPE" in packet or b"<!ENTITY" in packet:
        raise ValueError("it defines entities, which no XMP does")
    try:
        root = ElementTree.fromstring(packet.strip(b"\0 \t\r\n"))
        for description in root.iter(f"{{{RDF}}}Description"):
            for name, value in description.items():
                yield _split(name), Note((value,))
            for element in description:
                yield _split(element.tag), _read_property(element)
    except (ElementTree.ParseError, LookupError, RecursionError) as error:  # of deep ones
        raise ValueError(str(error)) from error


def read_notes(content: bytes) -> dict[Key, Note]:
    """Return what people and cameras noted in a picture file; of a damaged one, what can be read."""
    found: dict[Key, Note] = {}
    with suppress(Exception), warnings.catch_warnings():  # damaged files raise anything
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(content), formats=readable_formats(content[:SIGNATURE_BYTES])) as image:
            for read in (_read_exif, _read_iptc, _read_info, _read_packet):
                with suppress(Exception):
                    for key, note in read(image):
                        _join(found, key, note)
    return found


def read_sidecars(paths: Iterable[Path]) -> dict[Key, Note]:
    """Return what the sidecars of a picture say; one that cannot be read says something that nobody else says."""
    found: dict[Key, Note] = {}
    for path in paths:
        try:
            with open_regular(path) as file:
                notes = parse_xmp(file.read(MAX_SIDECAR_BYTES))
        except (OSError, ValueError):
            notes = {("", path.name): Note((path.name,), "structure")}
        for key, note in notes.items():
            _join(found, key, note)
    return found


def find_missing(kept: Notes, file: Notes) -> tuple[dict[Key, Note], list[Key]]:
    """Return what a file notes that the kept one lacks: what can be added to that, and of what both say something else.

    That a file was digitized counts where nothing says when it was taken.
    """
    added, other = {}, []
    for key, note in file.items():
        if key == DIGITIZED and TAKEN in file:
            continue
        stands = TEXTS if key in TEXTS else DATES if key == DIGITIZED else (key,)
        known = [value for each in stands if each in kept for value in kept[each].values]
        values = tuple(value for value in note.values if not any(_agree(key, value, theirs) for theirs in known))
        if not values:
            continue
        if note.form == "structure" or (key in kept and key != KEYWORDS):
            other.append(key)
        else:
            added[key] = Note(values, note.form)
    return added, other


def _agree(key: Key, one: str, other: str) -> bool:
    """Whether what one says is said by the other, too."""
    if key in DATES:
        return other.startswith(one)  # which may be the day alone
    if key != PLACE:
        return _simplify(one) == _simplify(other)
    places = [[float(part) for part in place.split()] for place in (one, other)]
    return all(abs(own - theirs) < MAX_APART for own, theirs in zip(*places, strict=True))


def _simplify(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _join(found: dict[Key, Note], key: Key, note: Note) -> None:
    """Add the values of a property to those that are known."""
    known = found.get(key, Note((), note.form))
    new = (value for value in note.values if not any(_agree(key, value, other) for other in known.values))
    values = *known.values, *dict.fromkeys(new)
    if values:
        found[key] = Note(values, known.form or note.form)


def _add(found: dict[Key, Note], key: Key, note: Note) -> None:
    """Add a property of an XMP packet, if people noted it."""
    space, name = key
    if space in DEVELOPED or space.startswith(SHOWN_SO):
        said = "of how it was developed" if space in DEVELOPED else "of how it is to be shown"
        key, note = (space, said), Note((f"{name}={note.values}",), "structure")
    elif not space or space.startswith(TECHNICAL) or name not in NOTED.get(space, {name}):
        return
    elif space not in PREFIXES:
        note = Note(note.values, "structure")  # it cannot be written elsewhere
    if key == (PHOTOSHOP, "DateCreated"):
        key = TAKEN
    values = [_clean(key, value) for value in note.values]
    _join(found, key, Note(tuple(value for value in values if value), note.form))


def _split(name: str) -> Key:
    space, _, local = name.rpartition("}")
    return space.removeprefix("{"), local


def _read_property(element: ElementTree.Element) -> Note:
    children = list(element)
    if not children and not any(_split(name)[0] not in (RDF, "") for name in element.attrib):
        return Note((element.text or "",))
    space, form = _split(children[0].tag) if children else ("", "")
    items = list(children[0]) if children else []
    if space == RDF and form in ("Alt", "Seq", "Bag") and not any(len(item) or _is_structure(item) for item in items):
        return Note(tuple(item.text or "" for item in items), form)  # type: ignore[arg-type]
    return Note((ElementTree.canonicalize(ElementTree.tostring(element, "unicode"), strip_text=True),), "structure")


def _is_structure(item: ElementTree.Element) -> bool:
    return any(_split(name)[0] == RDF or _split(name)[0] in PREFIXES for name in item.attrib)


def _make_place(found: dict[Key, Note]) -> dict[Key, Note]:
    """Make one position of latitude and longitude."""
    pair = [found.pop(key, Note(())).values for key in (LATITUDE, LONGITUDE)]
    with suppress(ValueError, IndexError):
        _join(found, PLACE, Note(tuple(_format_place(_parse_degrees(pair[0][0]), _parse_degrees(pair[1][0])))))
    return found


def _parse_degrees(text: str) -> float:
    parts = DEGREES.fullmatch(text.strip())
    if parts is None:
        raise ValueError(text)
    degrees = int(parts[1]) + float(parts[2]) / 60 + float(parts[3] or 0) / 3600
    return -degrees if parts[4] in "SW" else degrees


def _format_place(latitude: float, longitude: float) -> Iterator[str]:
    if (latitude, longitude) != (0, 0):
        yield f"{latitude:.6f} {longitude:.6f}"


def _read_exif(image: Image.Image) -> Iterator[tuple[Key, Note]]:
    outer = image.getexif()
    inner, place = outer.get_ifd(ExifTags.IFD.Exif), outer.get_ifd(ExifTags.IFD.GPSInfo)
    yield TAKEN, _make_note(TAKEN, [inner.get(ExifTags.Base.DateTimeOriginal)])
    yield DIGITIZED, _make_note(DIGITIZED, [inner.get(ExifTags.Base.DateTimeDigitized)])
    yield COMMENT, _make_note(COMMENT, [_decode_comment(inner.get(ExifTags.Base.UserComment))])
    yield LENS, _make_note(LENS, [inner.get(ExifTags.Base.LensModel)])
    yield EXPOSURE, _make_note(EXPOSURE, [inner.get(ExifTags.Base.ExposureTime)])
    for tag, key in TAGS.items():
        yield key, _make_note(key, [outer.get(tag)])
    yield KEYWORDS, _make_note(KEYWORDS, _decode(outer.get(ExifTags.Base.XPKeywords)).split(";"))
    with suppress(KeyError, TypeError, ValueError, ZeroDivisionError):
        names = ExifTags.GPS
        latitude = _join_degrees(place[names.GPSLatitude], place.get(names.GPSLatitudeRef))
        longitude = _join_degrees(place[names.GPSLongitude], place.get(names.GPSLongitudeRef))
        yield PLACE, Note(tuple(_format_place(latitude, longitude)))


def _join_degrees(parts: Any, side: Any) -> float:
    degrees, minutes, seconds = (float(part) for part in parts)
    found = degrees + minutes / 60 + seconds / 3600
    if not abs(found) <= 180:
        raise ValueError(found)  # not a number, too
    return -found if _decode(side) in ("S", "W") else found


def _read_iptc(image: Image.Image) -> Iterator[tuple[Key, Note]]:
    if not isinstance(image, ImageFile.ImageFile):
        return
    for place, content in (IptcImagePlugin.getiptcinfo(image) or {}).items():
        if place in IPTC:
            yield IPTC[place], _make_note(IPTC[place], content if isinstance(content, list) else [content])


def _read_info(image: Image.Image) -> Iterator[tuple[Key, Note]]:
    for name, key in INFO.items():
        yield key, _make_note(key, [image.info.get(name)])
    for name, text in image.text.items() if isinstance(image, PngImagePlugin.PngImageFile) else ():
        if name not in INFO and not NOT_NOTED_BY_PEOPLE.match(name):
            yield ("", name), Note((str(text),), "structure")  # programs that draw note what they were asked for


def _read_packet(image: Image.Image) -> Iterator[tuple[Key, Note]]:
    packet = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp")
    if packet:
        yield from parse_xmp(packet.encode() if isinstance(packet, str) else bytes(packet)).items()


def _make_note(key: Key, values: Iterable[Any]) -> Note:
    cleaned = (_clean(key, _decode(value)) for value in values)
    return Note(tuple(value for value in cleaned if value), FORMS.get(key, ""))


def _clean(key: Key, text: str) -> str:
    """Return a value as it is compared and written; empty for one that says nothing."""
    text = text.replace("\0", "").strip()
    if key in DATES:
        parts = DATE.match(text)
        with suppress(ValueError):
            if parts is not None:
                moment = datetime(*(int(part or 0) for part in parts.groups()))  # type: ignore[arg-type]
                return moment.isoformat() if parts[4] else moment.date().isoformat()
        return ""
    if key == EXPOSURE:
        with suppress(ValueError, ZeroDivisionError):
            return str(Fraction(text).limit_denominator(MAX_DENOMINATOR))
        return ""
    if key == RATING:
        return "" if text in ("0", "0.0") else text
    return "" if key in TEXTS and NOT_WRITTEN_BY_PEOPLE.match(text) else text


def _decode(value: Any) -> str:
    """Return an entry as text; empty for none."""
    if isinstance(value, tuple) and all(isinstance(part, int) for part in value):
        value = bytes(value)
    if isinstance(value, bytes):
        if value[1:2] == b"\0" or value[-2:] == b"\0\0":  # as Windows writes its own tags
            return value.decode("utf-16-le", errors="replace").replace("\0", "")
        value = value.decode("latin-1")
    if not isinstance(value, str):
        return "" if value is None else str(value)
    with suppress(UnicodeError):
        return value.encode("latin-1").decode()  # which decoders take for what it is not
    return value


def _decode_comment(value: Any) -> str:
    if not isinstance(value, bytes):
        return _decode(value)
    if value.startswith(b"UNICODE\0"):
        text = value[8:]
        return text.decode("utf-16-be" if text[:1] == b"\0" else "utf-16-le", errors="replace")
    return _decode(value.removeprefix(b"ASCII\0\0\0").lstrip(b"\0"))
