"""A file that has what the kept one lacks is looked at: where, when and by whom it was taken, captions, ratings, keywords."""

import io
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, PngImagePlugin, TiffImagePlugin

from image_copies.data.procedural import draw_picture
from image_copies.matching.files.facts import picture_facts
from image_copies.matching.files.keeping import KeepSettings
from image_copies.matching.files.notes import parse_xmp
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.files.surplus import find_surplus, read_holdings
from image_copies.matching.groups.group_plan import plan_group
from image_copies.matching.verification.contents import Contents
from tests.pictures import encode
from tests.search_results import know_all_alike

PACKET = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/"
xmlns:exif="http://ns.adobe.com/exif/1.0/" xmlns:crs="http://ns.adobe.com/camera-raw-settings/1.0/"
xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" {}</rdf:Description></rdf:RDF></x:xmpmeta>"""
HISTORY = """xmlns:xmpMM="http://ns.adobe.com/xap/1.0/mm/" xmlns:stEvt="http://ns.adobe.com/xap/1.0/sType/ResourceEvent#">
<xmpMM:History><rdf:Seq><rdf:li rdf:parseType="Resource" {}</rdf:li></rdf:Seq></xmpMM:History>"""
RETOUCHED = "the left man removed"
ATTRIBUTE_OR_ELEMENT = f'stEvt:parameters="{RETOUCHED}">', f"><stEvt:parameters>{RETOUCHED}</stEvt:parameters>"
DEEP = PACKET.format("><dc:title>" + 9999 * "<dc:title>" + 9999 * "</dc:title>" + "</dc:title>").encode()
POSITION = 'exif:GPSLatitude="{}" exif:GPSLongitude="{}">'
Save = Callable[[Path], None]


def draw(side: int) -> Image.Image:
    return Image.fromarray(draw_picture(np.random.default_rng(5), 320)).resize((side, side), Image.Resampling.LANCZOS)


def tag(**tags: Any) -> Image.Exif:
    exif = Image.Exif()
    for name, value in tags.items():
        number = ExifTags.Base[name]
        of_camera = number == ExifTags.Base.ExposureTime or (number > 36000 and not name.startswith("XP"))
        (exif.get_ifd(ExifTags.IFD.Exif) if of_camera else exif)[number] = value
    return exif


def place(degrees: int) -> Image.Exif:
    exif = Image.Exif()
    gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
    gps.update({1: "N", 2: (degrees, 30, 36.0), 3: "W", 4: (13, 24, 0)})
    return exif


def save(name: str = "small.jpg", **options: Any) -> Save:
    return lambda folder: draw(240).save(folder / name, **options)


def pack(inside: str) -> dict[str, Any]:
    return {"xmp": PACKET.format(inside).encode()}


def write_iptc(*records: tuple[int, bytes]) -> Save:
    def write(folder: Path) -> None:
        listed = b"".join(b"\x1c\x02" + struct.pack(">BH", number, len(text)) + text for number, text in records)
        block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(listed)) + listed
        stream = io.BytesIO()
        draw(240).save(stream, "JPEG")
        marker = b"\xff\xed" + struct.pack(">H", len(block) + 16) + b"Photoshop 3.0\0" + block
        (folder / "small.jpg").write_bytes(stream.getvalue()[:2] + marker + stream.getvalue()[2:])

    return write


def write_text(name: str, text: str = "the harbour") -> Save:
    texts = PngImagePlugin.PngInfo()
    texts.add_text(name, text)
    return save("small.png", pnginfo=texts)


def write_sidecar(inside: str, name: str = "small.jpg.xmp") -> Save:
    def write(folder: Path) -> None:
        draw(240).save(folder / "small.jpg")
        (folder / name).write_text(PACKET.format(inside))

    return write


def plan(folder: Path) -> PlanRow:
    members = [picture_facts(path) for path in sorted(folder.iterdir()) if path.suffix != ".xmp"]
    return plan_group(1, [each.path for each in members], know_all_alike(members), KeepSettings())[1]


PROGRAMS = "Adobe Photoshop CS6 (Windows)", "Ver.1.00 ", "paint.net 4.0.21", "G973FXXU9FUCD", "Acorn version 5.6.3", "PhotoScape"

NOTED: list[tuple[Save, str]] = [
    (save(exif=tag(DateTimeOriginal="2024:05:04 12:00:00")), "the date on which it was taken"),
    (save(exif=tag(DateTimeDigitized="2024:05:04 12:00:00")), "the date on which it was digitized"),  # the only one of a scan
    (save(**pack('exif:DateTimeDigitized="2024-05-04T12:00:00">')), "the date on which it was digitized"),
    (save(**pack('photoshop:DateCreated="2024-05-04">')), "the date on which it was taken"),  # the day alone
    (save(exif=place(47)), "a GPS position"),
    (save(exif=tag(ImageDescription="Grandma, Basel")), "a caption"),
    (save(exif=tag(UserComment=b"ASCII\0\0\0Grandma, Basel")), "a comment"),
    (save(exif=tag(Artist="Ann")), "an author"),
    (save(exif=tag(DocumentName="Deed of 1931")), "a title"),
    (save(exif=tag(ExposureTime=1 / 60)), "an exposure time"),
    (save(exif=tag(LensModel="50 mm")), "the name of its lens"),
    (save(exif=tag(Copyright="Ann")), "a copyright note"),
    (save(exif=tag(XPKeywords="sea;boat".encode("utf-16-le"))), "keywords"),
    (save(comment=b"Grandma, Basel"), "a comment"),
    (save(comment=b"Processed by K. Huber, negative 17/3"), "a comment"),
    (save(exif=tag(ImageDescription="Compressor hall 3, before repair")), "a caption"),
    (save(exif=tag(ImageDescription="Created with love for Anna")), "a caption"),
    (save(exif=tag(Make="Acme")), "the note Make"),
    *((save(exif=tag(Software=text)), "the note Software") for text in ("Retouched by Ann, 2004", "hand-coloured", "Ann Lee")),
    (save(exif=tag(HostComputer="Ann's computer")), "the note HostComputer"),
    (save(exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\x0e\0\1\x01\x0e\0\2\0\0\0\4sea\0\0\0\0\0"), "a caption"),  # of a thumbnail
    (write_text("Software", "Painted by hand"), "the note Software"),
    (save(**pack('xmp:CreatorTool="Painted by hand">')), "the note Software"),
    *((save(**pack(history)), "the note History of its own") for history in map(HISTORY.format, ATTRIBUTE_OR_ELEMENT)),
    (save(exif=tag(CameraOwnerName="Ann")), "the note CameraOwnerName"),
    (save(exif=tag(MakerNote=b"\1\2\3")), "the note MakerNote of its own"),
    (save("small.tif", tiffinfo={65000: "what nobody knows"}), "the note 65000 of its own"),
    (write_iptc((120, b"Grandma, Basel")), "a caption"),
    (write_iptc((55, b"19870502")), "the date on which it was taken"),
    (write_iptc((60, b"120000+0100")), "the note 60 of its own"),
    (write_iptc((40, b"Embargo until 1 December")), "the note Instructions"),
    (write_iptc((118, b"Ann, Basel")), "the note 118 of its own"),
    (write_text("Description"), "a caption"),
    (write_text("parameters"), "a comment"),
    (write_text("workflow"), "the note workflow of its own"),
    (write_text("Source"), "the note Source of its own"),
    (write_text("parameters", '{"prompt": "a red fox"}'), "a comment"),
    (save(**pack('xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:ImageDescription="sea">')), "a caption"),
    (save(**pack('dc:identifier="Inv. 1923/44 b">')), "the note identifier"),
    (save("small.webp", **pack('dc:identifier="Inv. 1923/44 b">')), "the note identifier"),
    (save("small.gif", comment=b"Grandma, Basel"), "what cannot be read"),
    (save("small.jpg", xmp=b"no XMP"), "the note XMP of its own"),
    (save("small.jpg", exif=b"Exif\0\0II*\0damaged"), "the note EXIF of its own"),
    (save(**pack('xmp:Rating="4">')), "a rating"),
    (save(**pack("><xmp:Label>red</xmp:Label>")), "a label"),
    (save(**pack("><dc:subject><rdf:Bag><rdf:li>sea</rdf:li></rdf:Bag></dc:subject>")), "keywords"),
    (save(**pack('><dc:description><rdf:Alt><rdf:li xml:lang="x-default">sea</rdf:li></rdf:Alt></dc:description>')), "a caption"),
    (save(**pack('exif:GPSLatitude="47,30.6N" exif:GPSLongitude="13,24W">')), "a GPS position"),
    (save(**pack('photoshop:City="Basel">')), "the note City"),
    (write_sidecar('xmp:Rating="4">'), "a rating"),
    (write_sidecar('xmp:Rating="4">', "small.xmp"), "a rating"),
    (write_sidecar('crs:Exposure2012="+1.0">'), "the note of how it was developed of its own"),
    (save(**pack('crs:Exposure2012="+1.0">')), "the note of how it was developed of its own"),
    (save(**pack('xmlns:cc="http://creativecommons.org/ns#" cc:license="CC BY">')), "the note license of its own"),
    (write_sidecar('xmlns:dwc="http://rs.tdwg.org/dwc/terms/"><dwc:genus>Bellis</dwc:genus>'), "the note genus of its own"),
    (write_sidecar("no XMP"), "the note small.jpg.xmp of its own"),
    (save(comment=b"Created with GIMP in Linz"), "a comment"),
]


@pytest.mark.parametrize(("write", "what"), NOTED)
def test_what_is_noted_in_one_file_alone_is_not_lost(tmp_path: Path, write: Save, what: str) -> None:
    """All of these went with a smaller copy, but for the date."""
    draw(320).save(tmp_path / "large.jpg")
    write(tmp_path)
    row = plan(tmp_path)
    assert row.action == "review" and f"it has {what}, unlike the kept file" in row.reason, row


@pytest.mark.parametrize(
    "write",
    [
        save(exif=tag(DateTime="2024:05:04 12:00:00", Software="GIMP", Orientation=1, XResolution=72.0)),
        save(exif=tag(ImageDescription="OLYMPUS DIGITAL CAMERA         ")),
        save(comment=b"CREATOR: gd-jpeg v1.0 (using IJG JPEG v62), quality = 90"),
        save(comment=b"Created with GIMP", dpi=(300, 300), progressive=True),
        save(**pack('xmp:Rating="0" xmp:ModifyDate="2024-01-01" xmp:CreatorTool="GIMP" dc:format="image/jpeg">')),
        save(**pack(HISTORY.format('stEvt:action="saved" stEvt:parameters="converted from image/tiff to image/jpeg">'))),
        *(save(exif=tag(Software=text, HostComputer="iPhone 12 mini")) for text in PROGRAMS),
        save(exif=tag(UserComment=b"ASCII\0\0\0" + bytes(40), DateTimeOriginal="0000:00:00 00:00:00")),
        save("small.webp", exif=tag(Software="GIMP")),
        save("small.avif", exif=tag(Software="GIMP")),
        write_iptc((0, b"\0\2"), (40, b"FBMD01000a9f"), (103, b"UwJ9gXF8hYh2k1pZ0a3b")),  # of Facebook
        write_sidecar(">"),
        write_text("Software", "gnome-screenshot"),
        write_text("date:create", "2024-05-04T12:00:00+00:00"),
        write_sidecar(POSITION.format("0,0S", "0,0.00E")),
    ],
)
def test_what_programs_note_is_nothing_to_lose(tmp_path: Path, write: Save) -> None:
    draw(320).save(tmp_path / "large.jpg")
    write(tmp_path)
    assert plan(tmp_path).action == "remove"


def test_the_date_of_the_last_change_is_no_date_of_the_exposure(tmp_path: Path) -> None:
    """Tag 306 of the kept file, which an editor writes, passed for the date on which the other one was taken."""
    draw(320).save(tmp_path / "large.jpg", exif=tag(DateTime="2025:01:01 10:00:00"))
    save(exif=tag(DateTimeOriginal="2024:05:04 12:00:00"))(tmp_path)
    assert picture_facts(tmp_path / "large.jpg").taken == ""
    assert "it has the date on which it was taken, unlike the kept file" in plan(tmp_path).reason


def test_what_both_note_goes_however_it_is_written(tmp_path: Path) -> None:
    inside = 'exif:GPSLatitude="47,30.6N" exif:GPSLongitude="13,24W" exif:DateTimeOriginal="2024-05-04T12:00:00+02:00">'
    caption = '<dc:description><rdf:Alt><rdf:li xml:lang="x-default">Grün </rdf:li></rdf:Alt></dc:description>'
    draw(320).save(tmp_path / "large.jpg", **pack(inside + caption))
    exif = place(47)
    exif[ExifTags.Base.ImageDescription] = "Grün".encode()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2024:05:04 12:00:00"
    save(exif=exif)(tmp_path)
    row = plan(tmp_path)
    assert row.action == "remove", row


@pytest.mark.parametrize(
    ("kept", "other", "what"),
    [
        (POSITION.format("51,28.68N", "8,0E"), POSITION.format("51,28.68N", "0,0E"), "a GPS position"),
        ("no XMP", "none either", "the note small.jpg.xmp"),
    ],
)
def test_what_both_note_otherwise_is_not_lost(tmp_path: Path, kept: str, other: str, what: str) -> None:
    held = list[Contents]()
    for inside in (kept, other):
        folder = tmp_path / str(len(held))
        folder.mkdir()
        write_sidecar(inside)(folder)
        held.append(read_holdings(folder / "small.jpg"))
    assert find_surplus(*held)[0] == [f"{what} of its own"]


@pytest.mark.parametrize("same_bytes", [False, True])
def test_what_the_sidecar_of_the_kept_file_notes_is_not_lacking(tmp_path: Path, same_bytes: bool) -> None:
    draw(320).save(tmp_path / "large.jpg")
    if same_bytes:
        (tmp_path / "small.jpg").write_bytes((tmp_path / "large.jpg").read_bytes())
    else:
        draw(240).save(tmp_path / "small.jpg")
    (tmp_path / "small.jpg.xmp").write_text(PACKET.format('xmp:Rating="4">'))
    row = plan(tmp_path)
    assert (row.action, row.kept.name) == (
        ("keep", "small.jpg") if row.action == "keep" else ("review", "large.jpg")
    ) or same_bytes
    (tmp_path / "large.xmp").write_text(PACKET.format("><xmp:Rating>4</xmp:Rating>"))
    assert plan(tmp_path).action == "remove"
    (tmp_path / "large.xmp").write_text(PACKET.format("><xmp:Rating>3</xmp:Rating>"))
    assert "it has a rating of its own, unlike the kept file" in plan(tmp_path).reason


@pytest.mark.parametrize(
    "packet", [b"", b"<", b"<x/>" * 2, b"<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>", "<x/>".encode("utf-32"), DEEP]
)
def test_what_is_no_xmp_is_refused(packet: bytes) -> None:
    with pytest.raises(ValueError):
        parse_xmp(packet)


def test_contents_count_for_files_of_a_plan(tmp_path: Path) -> None:
    """The kept file is chosen by size; nobody asked for transparency, depth, separations, profile or the film behind it."""
    kept, small = draw(320), draw(240)
    kept.save(tmp_path / "large.png")
    small.putalpha(Image.new("L", small.size, 200))
    small.save(tmp_path / "small.png")
    assert "it has transparent parts, unlike the kept file" in plan(tmp_path).reason
    draw(240).save(tmp_path / "small.png")
    with (tmp_path / "small.png").open("ab") as file:
        file.write(b"\0\0\0\x18ftypmp42film")
    assert "it has a film behind the picture, unlike the kept file" in plan(tmp_path).reason
    (tmp_path / "small.png").unlink()
    draw(240).convert("CMYK").save(tmp_path / "small.tif", tiffinfo=TiffImagePlugin.ImageFileDirectory_v2())
    assert "it has CMYK channels, unlike the kept file" in plan(tmp_path).reason


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes are asked for on Linux alone")
@pytest.mark.parametrize(
    ("name", "action"), [("user.xdg.comment", "review"), ("user.baloo.rating", "review"), ("user.xdg.origin.url", "remove")]
)
def test_what_a_desktop_keeps_beside_a_file_counts(tmp_path: Path, name: str, action: str) -> None:
    large, small = tmp_path / "large.jpg", tmp_path / "small.jpg"
    draw(320).save(large)
    for content in (encode(draw(240), "JPEG"), large.read_bytes()):
        small.write_bytes(content)
        try:
            os.setxattr(small, name, b"4")
        except OSError:
            pytest.skip("this file system keeps no attributes")
        row = plan(tmp_path)
        assert row.action == action and (name in row.reason) == (action == "review"), row
        os.setxattr(large, name, b"4")
        assert plan(tmp_path).action == "remove"
        os.removexattr(large, name)


def test_of_what_cannot_be_read_all_may_be_lost(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    held = read_holdings(tmp_path / "a.png")
    assert find_surplus(held, held) == ([], {})
    assert find_surplus(None, held) == find_surplus(held, None) == (["what cannot be read"], {})
