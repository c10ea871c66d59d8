"""What is noted about a picture in its file and in its XMP sidecar: all but what programs write into any file."""

import hashlib
import re
import struct
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL import ExifTags

from image_copies.data.files import open_regular

from ..verification import parts
from ..verification.contents import Note, Notes, open_picture
from ..verification.directories import Directory, Value, iterate_directories

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
PREFIXES = {  # of the namespaces that can be written; what is of another one stays in its file
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://ns.adobe.com/xap/1.0/": "xmp",
    "http://ns.adobe.com/tiff/1.0/": "tiff",
    "http://cipa.jp/exif/1.0/": "exif",
    "http://ns.adobe.com/exif/1.0/": "exif",
    "http://ns.adobe.com/exif/1.0/aux/": "aux",
    "http://ns.adobe.com/photoshop/1.0/": "photoshop",
    "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/": "Iptc4xmpCore",
    "http://iptc.org/std/Iptc4xmpExt/2008-02-29/": "Iptc4xmpExt",
    "http://ns.adobe.com/xap/1.0/rights/": "xmpRights",
    "http://ns.adobe.com/lightroom/1.0/": "lr",
    "http://www.digikam.org/ns/1.0/": "digiKam",
    "http://ns.acdsee.com/iptc/1.0/": "acdsee",
    "http://www.metadataworkinggroup.com/schemas/regions/": "mwg-rs",
    "http://www.metadataworkinggroup.com/schemas/keywords/": "mwg-kw",
    "http://ns.microsoft.com/photo/1.0/": "MicrosoftPhoto",
    "http://ns.microsoft.com/photo/1.2/": "MP",
}
SPACES = {prefix: space for space, prefix in PREFIXES.items()}
# begin the namespaces of how XMP is written, and of the programs and steps by which a file came about
TOOLS = (
    "http://www.w3.org/",
    "adobe:ns:meta/",
    "http://ns.adobe.com/xap/1.0/mm/",
    "http://ns.adobe.com/xmp/note/",
    "http://www.gimp.org/",
)
STEPS = "xmpMM:History"  # the words of their own that those say of a step
PARAMETERS = "{http://ns.adobe.com/xap/1.0/sType/ResourceEvent#}parameters"
DEVELOPED = "http://ns.adobe.com/camera-raw-settings/1.0/", "http://darktable.sf.net/"
# "dc:title", by a prefix, or a namespace that has none, and a name; tags of EXIF and TIFF as XMP names them
Key = str
# in degrees, to the south and west below 0
LATITUDE, LONGITUDE = PLACE = ("exif:GPSLatitude", "exif:GPSLongitude")
# the latter often is the only date of a scan
TAKEN, DIGITIZED = DATES = "exif:DateTimeOriginal", "exif:DateTimeDigitized"
CAPTION = "dc:description"
TITLE = "dc:title"
COMMENT = "exif:UserComment"
HEADLINE = "photoshop:Headline"
RIGHTS = "dc:rights"
KEYWORDS = "dc:subject"
RATING = "xmp:Rating"
WORDS: dict[Key, str] = {
    TAKEN: "the date on which it was taken",
    DIGITIZED: "the date on which it was digitized",
    LATITUDE: "a GPS position",
    LONGITUDE: "a GPS position",
    "exif:ExposureTime": "an exposure time",
    "aux:Lens": "the name of its lens",
    CAPTION: "a caption",
    TITLE: "a title",
    COMMENT: "a comment",
    HEADLINE: "a headline",
    "dc:creator": "an author",
    RIGHTS: "a copyright note",
    KEYWORDS: "keywords",
    RATING: "a rating",
    "xmp:Label": "a label",
}
FORMS: dict[Key, str] = {
    **dict.fromkeys((CAPTION, TITLE, COMMENT, RIGHTS), "Alt"),
    "dc:creator": "Seq",
    KEYWORDS: "Bag",
}
# a property, and others that say the same: of EXIF and TIFF, IPTC records, texts of PNG
SAME = """
dc:description tiff:ImageDescription tiff:XPSubject iptc:120 png:Description
dc:title tiff:DocumentName tiff:XPTitle iptc:5 png:Title
exif:UserComment tiff:XPComment png:Comment png:parameters
dc:creator tiff:Artist tiff:XPAuthor iptc:80 png:Author
dc:rights tiff:Copyright iptc:116 png:Copyright
dc:subject tiff:XPKeywords iptc:25 MicrosoftPhoto:LastKeywordXMP MicrosoftPhoto:LastKeywordIPTC
exif:DateTimeOriginal photoshop:DateCreated iptc:55
exif:DateTimeDigitized xmp:CreateDate iptc:62
xmp:Rating tiff:Rating
MicrosoftPhoto:Rating tiff:RatingPercent
aux:Lens exif:LensModel
aux:SerialNumber exif:BodySerialNumber
exif:ISOSpeedRatings exif:PhotographicSensitivity
photoshop:Headline iptc:105
photoshop:City iptc:90
photoshop:State iptc:95
photoshop:Country iptc:101
photoshop:Instructions iptc:40
photoshop:TransmissionReference iptc:103
photoshop:AuthorsPosition iptc:85
photoshop:Credit iptc:110
photoshop:Source iptc:115
photoshop:CaptionWriter iptc:122
Iptc4xmpCore:Location iptc:92
Iptc4xmpCore:CountryCode iptc:100
tiff:Software tiff:ProcessingSoftware xmp:CreatorTool iptc:65 png:Software
"""
ALIASES = {other: line[0] for line in map(str.split, SAME.splitlines()) for other in line[1:]}
# how pixels are coded, where things lie in the file, which program wrote it and when, and how to print it
WRITTEN = """
tiff:NewSubfileType tiff:SubfileType tiff:ImageWidth tiff:ImageLength tiff:BitsPerSample tiff:Compression tiff:FillOrder
tiff:PhotometricInterpretation tiff:StripOffsets tiff:Orientation tiff:SamplesPerPixel tiff:RowsPerStrip tiff:StripByteCounts
tiff:MinSampleValue tiff:MaxSampleValue tiff:XResolution tiff:YResolution tiff:PlanarConfiguration tiff:ResolutionUnit
tiff:PageNumber tiff:DateTime tiff:Predictor tiff:ColorMap tiff:TileWidth
tiff:TileLength tiff:TileOffsets tiff:TileByteCounts tiff:InkSet tiff:NumberOfInks tiff:ExtraSamples tiff:SampleFormat
tiff:SMinSampleValue tiff:SMaxSampleValue tiff:JPEGTables tiff:JpegIFOffset tiff:JpegIFByteCount tiff:YCbCrCoefficients
tiff:YCbCrSubSampling tiff:YCbCrPositioning tiff:ReferenceBlackWhite tiff:XMLPacket tiff:IPTCNAA tiff:ImageResources tiff:GPSInfo
tiff:ExifOffset tiff:InterColorProfile tiff:PrintImageMatching tiff:59932 tiff:59933 tiff:NativeDigest exif:NativeDigest
exif:ExifVersion exif:FlashPixVersion exif:FlashpixVersion exif:ComponentsConfiguration exif:CompressedBitsPerPixel
exif:ColorSpace exif:ExifImageWidth exif:ExifImageHeight exif:PixelXDimension exif:PixelYDimension exif:GPSVersionID
exif:ExifInteroperabilityOffset exif:SubsecTime exif:OffsetTime exif:2 exif:RelatedImageWidth exif:RelatedImageLength
xmp:ModifyDate xmp:MetadataDate dc:format dc:Format photoshop:ColorMode photoshop:ICCProfile
photoshop:LegacyIPTCDigest photoshop:DocumentAncestors iptc:0 iptc:70 iptc:1:0 iptc:1:90
"""
# exactly what cameras and programs write where people write captions and comments
DEFAULTS = re.compile(
    r"(?:OLYMPUS|SAMSUNG|MINOLTA|KONICA MINOLTA|KODAK|SANYO|CASIO|PENTAX)? ?DIGITAL CAMERA|SONY DSC|SAMSUNG|DCIM|R98|WGS-84"
    r"|Picasa(?: [\d.]+)?|0/0(?: 0/0)*"
    r"|SAMSUNG CAMERA PICTURES|Exif_JPEG_(?:PICTURE|422)|<KENOX .{1,40}>|AppleMark|Screenshot|charset=\"?Ascii\"?|Lavc[\d.]+"
    r"|Created with (?:The )?GIMP|CREATOR: gd-jpeg v1\.0 \(using IJG JPEG v\d+\), (?:quality = \d+|default quality)"
    r"|LEAD Technologies Inc\. V[\d.]+|File written by Adobe Photoshop.{1,8}|Created by OpenJPEG version [\d.]+"
    r"|Optimized by JPEGmini [\d.]+ ?\S*|Compressed by jpeg-recompress|Processed By eBay with ImageMagick, [\w.|]+"
    r"|(?:converted |derived )?from \w+/\S+ to \w+/\S+?(?:, saved to new location)?"
)
# what programs and devices call themselves: a known name, a version or a word of signs, and no words of a sentence
WRITERS = "tiff:Software", "tiff:HostComputer"
KNOWN = (
    "Adobe|Apple|Mac ?OS|macOS|iOS|iPhone|iPad|iPod|iMac|MacBook|Aperture|Microsoft|Windows|Google|Android|Picasa|Snapseed|GIMP"
    "|gimp|Paint|Pixelmator|Affinity|Capture One|Photos|Lightroom|darktable|digiKam|Shotwell|gThumb|gnome-|Krita|Inkscape|Corel"
    "|Ulead|Nikon|Canon|Digital Photo Professional|Sony|Samsung|Olympus|Panasonic|Leica|Ricoh|Pentax|Kodak|Epson|EPSON|HP"
    "|Hasselblad|Phase One|Topaz|Luminar|Photomatix|Hugin|SilverFast|MediaTek|Instagram|Facebook|Canva|Polarr|Matplotlib|Lavc"
)
WORD = r"(?:[^\sa-z]\S*|\S*[\d.:]\S*|for|with|and|version|ver|build|mini|bit)"
WRITER = re.compile(
    rf"(?=(?:{KNOWN})|.*(?:\d\.\d|\b[vV]er|\bV\d)|\S*(?:[\d.]|[A-Z]\S*[A-Z])\S*$)(?:(?:{KNOWN})\S*|{WORD})(?:\s+{WORD})*"
)
# begins the names of texts that programs write about the file
TOOL_TEXT = re.compile("date:|jpeg:|png:|icc:|Thumb::")
# among the instructions of an IPTC block, of which the reference is no person's either
FACEBOOK = re.compile(r"FBMD[0-9a-f]+")
DATE = re.compile(r"(\d{4})[:-]?(\d\d)[:-]?(\d\d)(?:[T ](\d\d):?(\d\d)(?::?(\d\d))?)?")
DEGREES = re.compile(r"(\d+),([\d.]+)(?:,([\d.]+))?([NSEW])")
MAX_APART = 2e-4  # degrees by which two ways to write one position differ
MAX_SIDECAR_BYTES = 20_000_000


NOTHING: Note = ("",)  # is said of a property
NOWHERE = ("", "0.000000")  # both coordinates where a device knows none
Read = Iterable[tuple[Key, Note]]


def describe(key: Key) -> str:
    """Return what a property is called, with its article."""
    if key.startswith(DEVELOPED):
        return "the note of how it was developed"
    return WORDS.get(key, f"the note {key.removeprefix('png:').rpartition(':')[2]}")


def parse_xmp(packet: bytes) -> dict[Key, Note]:
    """Return what an XMP packet notes.

    Raises:
        ValueError: it is no XMP.
    """
    found: dict[Key, Note] = {}
    _gather(found, _iterate_properties(packet))
    return found


def _iterate_properties(packet: bytes) -> Read:
    if b"<!DOCTYPE" in packet or b"<!ENTITY" in packet:
        raise ValueError("it defines entities, which no XMP does")
    try:
        root = ElementTree.fromstring(packet.strip(b"\0 \t\r\n"))
        for description in root.iter(f"{{{RDF}}}Description"):
            for name, value in description.items():
                yield _name_property(name), ("", value)
            for element in description:
                yield _name_property(element.tag), _read_property(element)
        for element in root.iter():
            said = element.text if element.tag == PARAMETERS else element.get(PARAMETERS)
            yield STEPS, ("structure", said or "")
    except (ElementTree.ParseError, LookupError, RecursionError) as error:  # of deep ones
        raise ValueError(str(error)) from error


def read_notes(content: bytes, sidecars: Iterable[Path] = ()) -> dict[Key, Note]:
    """Return what is noted in a picture file and in its sidecars.

    Of a part that cannot be read, it is that it is there; of a sidecar, something that nobody else says.

    Raises:
        ImageError: The picture is damaged.
    """
    found: dict[Key, Note] = {}
    with open_picture(content) as image:
        listed = parts.list_parts(image, content)
    for name, data in listed:
        if name in READERS:
            try:
                _gather(found, READERS[name](data))
            except parts.DAMAGED:
                _gather(found, [(name, _digest(data))])
    for path in sidecars:
        said = bytes(path)  # of one that cannot be opened
        try:
            with open_regular(path) as file:
                said = file.read(MAX_SIDECAR_BYTES)
            _gather(found, _iterate_properties(said))
        except (OSError, ValueError):
            _gather(found, [(path.name, _digest(said))])
    return found


def find_missing(kept: Notes, file: Notes) -> tuple[dict[Key, Note], list[Key]]:
    """Return what a file notes that the kept one lacks: what can be added to that, and of what both say something else."""
    added, other = {}, []
    for key, (form, *values) in file.items():
        _, *known = kept.get(key, NOTHING)
        lacking = [value for value in values if not _is_among(key, value, known)]
        if not lacking:
            continue
        if form == "structure" or (known and key != KEYWORDS):
            other.append(key)
        else:
            added[key] = (form, *lacking)
    return added, other


def _is_among(key: Key, value: str, others: Iterable[str]) -> bool:
    """Whether one of the values of a property is the same, however its text is coded and spaced, or near it for a place."""
    if key in PLACE:
        with suppress(ValueError):
            return any(abs(float(value) - float(other)) < MAX_APART for other in others)
    return _simplify(value) in map(_simplify, others)


def _simplify(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _gather(found: dict[Key, Note], properties: Read) -> None:
    """Add what properties note to what is known, what says the same under one key."""
    for named, (read_form, *noted) in properties:
        key = ALIASES.get(named, named)
        if named in WRITTEN_KEYS or key.startswith(TOOLS):
            continue
        prefix, _, name = key.rpartition(":")
        writable = prefix in SPACES and name.isidentifier() and read_form != "structure"
        known_form, *values = found.get(key, NOTHING)
        for value in (_clean(key, value) for value in noted):
            if value and not _is_among(key, value, values):
                values.append(value)
        form = FORMS.get(key, known_form or read_form)
        if values:
            found[key] = (form if writable and known_form != "structure" else "structure", *values)
    if found.get(LATITUDE) == found.get(LONGITUDE) == NOWHERE:
        del found[LATITUDE], found[LONGITUDE]


def _name_property(name: str) -> Key:
    space, _, local = name.rpartition("}")
    space = space.removeprefix("{")
    return f"{PREFIXES.get(space, space)}:{local}"


def _read_property(element: ElementTree.Element) -> Note:
    children = list(element)
    if not children and not _is_structure(element):
        return "", element.text or ""
    form = children[0].tag.removeprefix(f"{{{RDF}}}") if children else ""
    items = list(children[0]) if children else []
    if form in ("Alt", "Seq", "Bag") and not any(len(item) or _is_structure(item) for item in items):
        return form, *(item.text or "" for item in items)
    return "structure", ElementTree.canonicalize(ElementTree.tostring(element, "unicode"), strip_text=True)


def _is_structure(item: ElementTree.Element) -> bool:
    """Whether an element has more than a text: attributes other than its language."""
    return any(not name.startswith("{http://www.w3.org/XML/") for name in item.attrib)


def _read_directories(data: bytes) -> Read:
    for directory in iterate_directories(data):
        yield from _read_directory(directory, data)


def _read_directory(directory: Directory, data: bytes) -> Read:
    names = ExifTags.GPSTAGS if directory.name == "GPS" else ExifTags.TAGS
    prefix = "exif" if directory.name else "tiff"
    tags = {f"{prefix}:{names.get(tag, tag)}": value for tag, value in directory.tags.items()}
    for key, usual in ((LATITUDE, b"N"), (LONGITUDE, b"E")):
        degrees: Any = tags.get(key)
        side = bytes(tags.pop(f"{key}Ref", usual)).strip(b"\0 ") or usual
        with suppress(ValueError, ZeroDivisionError, TypeError):
            whole, minutes, seconds = (Fraction(*part) for part in degrees)
            tags[key] = f"0,{float(60 * whole + minutes + seconds / 60):.9f}".encode() + side[:1]
    for key, value in tags.items():
        yield key, _read_value(key, data if key == "tiff:SubIFDs" else value)


def _read_value(key: Key, value: Value) -> Note:
    """Return the value of a tag; of one that is no text, its digest."""
    if isinstance(value, list):
        texts = ["/".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value]
        return "structure" if len(texts) > 1 else "", " ".join(texts)
    if key.startswith("tiff:XP"):  # as Windows writes its own tags
        text = value.decode("utf-16-le", errors="replace")
        return "", *(text.replace("\0", "").split(";") if key == "tiff:XPKeywords" else [text])
    if key == COMMENT and value.startswith(b"UNICODE\0"):
        text = value[8:].decode("utf-16-be" if value[8:9] == b"\0" else "utf-16-le", errors="replace")
    else:
        text = _decode(value.removeprefix(b"ASCII\0\0\0") if key == COMMENT else value)
    text = text.strip("\0 ")
    readable = all(letter.isprintable() or letter.isspace() for letter in text)
    return ("", text) if readable else _digest(value)


def _digest(data: bytes) -> Note:
    return "structure", hashlib.sha256(data).hexdigest()


def _read_iptc(data: bytes) -> Read:
    records, place = defaultdict[Key, list[str]](list), 0
    while data[place : place + 1] == b"\x1c":
        record, number, length = struct.unpack_from(">BBH", data, place + 1)
        place += 5 + length
        records[f"iptc:{number}" if record == 2 else f"iptc:{record}:{number}"].append(
            _decode(data[place - length : place])
        )
    if data[place:].strip(b"\0"):
        yield parts.IPTC, _digest(data)
    if FACEBOOK.fullmatch("".join(records.get("iptc:40", ()))):
        del records["iptc:40"]
        records.pop("iptc:103", None)
    yield from ((key, ("", *values)) for key, values in records.items())


def _read_text(data: bytes) -> Read:
    name, _, text = data.decode(errors="replace").partition("\0")
    if not TOOL_TEXT.match(name):
        yield name if name.startswith("exif:") else f"png:{name}", ("", text)


def _read_comment(data: bytes) -> Read:
    yield COMMENT, ("", _decode(data))


def _clean(key: Key, text: str) -> str:
    """Return a value as it is compared and written; empty for one that says nothing."""
    text = text.replace("\0", "").strip()
    if key in DATES and (found := DATE.match(text)) is not None:
        with suppress(ValueError):
            moment = datetime(*(int(part or 0) for part in found.groups()))  # type: ignore[arg-type]
            return moment.isoformat() if found[4] else moment.date().isoformat()
        return ""
    if key in PLACE and (found := DEGREES.fullmatch(text)) is not None:
        degrees = int(found[1]) + float(found[2]) / 60 + float(found[3] or 0) / 3600
        return f"{-degrees if found[4] in 'SW' else degrees:z.6f}"
    nothing = (key in DATES and not text.strip(": ")) or (key == RATING and text in ("0", "0.0"))
    nothing = nothing or (key in WRITERS and WRITER.fullmatch(text) is not None)
    return "" if nothing or DEFAULTS.fullmatch(text) else text


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeError:
        return value.decode("latin-1")


WRITTEN_KEYS = frozenset(WRITTEN.split())
READERS = {
    parts.EXIF: _read_directories,
    parts.TIFF: _read_directories,
    parts.XMP: _iterate_properties,
    parts.IPTC: _read_iptc,
    parts.TEXT: _read_text,
    parts.COMMENT: _read_comment,
}
