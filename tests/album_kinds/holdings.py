"""Files that show the same and hold more than the other: metadata, frames, alpha, depth. What only one holds is never lost."""

import io
import struct
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageCms, ImageDraw, PngImagePlugin, TiffImagePlugin

from tests.album_kinds.kind import Album, Picture
from tests.album_kinds.pictures import page, scale, scene, write
from tests.pictures import decode, encode

XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
    'xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/" {attributes}>{elements}'
    "</rdf:Description></rdf:RDF></x:xmpmeta>"
)


def insert(content: bytes, part: bytes, marker: int = 0xE1) -> bytes:
    """Return a JPEG with another part at its beginning."""
    return content[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(part) + 2) + part + content[2:]


def save_with(album: Album, exif: Image.Exif | None = None, xmp: str = "") -> tuple[Path, Path]:
    """Save a plain picture and its re-save, which alone has metadata."""
    plain = encode(scene(album.rng), "JPEG", quality=92)
    path = album.write(plain, "plain.jpg")
    copy = decode(plain)
    return path, album.save(copy, "noted.jpg", quality=75, exif=Image.Exif() if exif is None else exif, xmp=xmp.encode())


def iptc_in_one(album: Album) -> None:
    """Only the smaller file has keywords, in the older form of newspapers."""
    plain = scene(album.rng)
    album.save(plain, "plain.jpg")
    record = b"".join(
        b"\x1c\x02" + bytes([tag]) + struct.pack(">H", len(text)) + text for tag, text in ((25, b"lake"), (120, b"at the lake"))
    )
    block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(record)) + record + b"\0" * (len(record) % 2)
    album.write(insert(encode(scale(plain, 0.7), "JPEG", quality=85), b"Photoshop 3.0\0" + block, 0xED), "noted.jpg")


def date_of_editing(album: Album) -> None:
    """One says when it was taken, the other only when it was edited."""
    taken, edited = Image.Exif(), Image.Exif()
    taken.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "1998:07:04 12:00:00"
    edited[ExifTags.Base.DateTime] = "2024:01:01 10:00:00"
    content = encode(scene(album.rng), "JPEG", quality=92, exif=edited)
    album.write(content, "edited.jpg")
    album.save(decode(content), "taken.jpg", quality=75, exif=taken)


def same_pixels_other_notes(album: Album) -> None:
    """The same compressed data, each file with something of its own."""
    content = encode(scene(album.rng), "JPEG", quality=90)
    for name, tag in (("one", ExifTags.Base.ImageDescription), ("other", ExifTags.Base.Artist)):
        exif = Image.Exif()
        exif[tag] = name
        album.write(insert(content, exif.tobytes()), f"{name}.jpg")


def text_in_png(album: Album) -> None:
    """Only one of two PNG files says how it was made."""
    photo = scene(album.rng)
    notes = PngImagePlugin.PngInfo()
    notes.add_itxt("parameters", "a lake at dawn, seed 1234")
    album.save(photo, "plain.png", compress_level=1)
    album.save(photo, "noted.png", pnginfo=notes, compress_level=9)


def other_profile(album: Album) -> None:
    """The same numbers with another profile are other colours."""
    photo = scene(album.rng)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    wide = bytearray(profile.replace("sRGB".encode("utf-16-be"), "wide".encode("utf-16-be")))
    place = wide.find(b"rXYZ", 128)
    offset = int.from_bytes(wide[place + 4 : place + 8], "big") + 8
    wide[offset : offset + 4] = struct.pack(">i", round(0.61 * 65536))
    album.save(photo, "one.png", icc_profile=profile)
    album.save(photo, "other.png", icc_profile=bytes(wide))


def metadata_in_both(album: Album) -> None:
    """What the copy says the original says, too."""
    exif = Image.Exif()
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Maker", "Camera 1"
    exif[ExifTags.Base.ImageDescription] = "at the lake"
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2024:05:04 12:00:00"
    content = encode(scene(album.rng), "JPEG", quality=92, exif=exif)
    original = album.write(content, "original.jpg")
    album.goes(album.save(Image.open(io.BytesIO(content)), "copy.jpg", quality=75, exif=exif), original)


def pages_of(album: Album, count: int) -> list[Picture]:
    return [page(album.rng, lines=10) for _ in range(count)]


def more_pages(album: Album) -> None:
    """A report, and its cover alone."""
    pages = pages_of(album, 3)
    album.save(pages[0], "report.tiff", save_all=True, append_images=pages[1:])
    cover = album.save(pages[0], "cover.png")
    album.may_go(cover, album.folder / "report.tiff")


def other_pages(album: Album) -> None:
    """Two reports with the same cover."""
    cover, *pages = pages_of(album, 5)
    album.save(cover, "one.tiff", save_all=True, append_images=pages[:2])
    album.save(cover, "other.tiff", save_all=True, append_images=pages[2:])


def frames_of(album: Album) -> list[list[Picture]]:
    """Two animations that begin with the same frame."""
    first = scene(album.rng, 200)
    return [
        [first, *(write(first, (0.2, 0.3 + 0.2 * row), words, 24, "white") for row in range(3))] for words in ("HELLO", "GOODBYE")
    ]


def other_duration(album: Album) -> None:
    """The same animation, and a still picture of its first frame."""
    first, *others = frames_of(album)[0]
    film = album.save(first, "film.webp", save_all=True, append_images=others, duration=200, lossless=True)
    album.may_go(album.save(first, "still.png"), film)


def write_on_nothing(word: str, size: tuple[int, int] = (480, 300)) -> Picture:
    """A word in white on transparent, before which some things stand."""
    shown = Image.new("RGBA", size, (255, 255, 255, 0))
    draw = ImageDraw.Draw(shown)
    for row in range(6):
        draw.rectangle((20 + 70 * row, 20 + 12 * row, 60 + 70 * row, 90), (30 * row, 90, 200 - 30 * row, 255))
    return write(shown, (0.1, 0.5), word, 70, "white")


def other_white_word(album: Album) -> None:
    """A logo with another white word on transparent ground."""
    for name, word in (("one", "RIVER"), ("other", album.pick("STONE", "GARDEN"))):
        album.save(write_on_nothing(word), f"{name}.png")


def cut_out(album: Album) -> None:
    """A thing that was cut out, and the same before white."""
    photo = scene(album.rng)
    mask = Image.new("L", photo.size)
    ImageDraw.Draw(mask).ellipse((60, 60, photo.width - 60, photo.height - 60), fill=255)
    shown = Image.composite(photo, Image.new("RGB", photo.size, "white"), mask)
    cut = shown.convert("RGBA")
    cut.putalpha(mask)
    original = album.save(cut, "cut.png")
    album.may_go(album.save(shown, "flat.png"), original)


def soft_shadow(album: Album) -> None:
    """The same colours with another transparency."""
    photo = scene(album.rng)
    for name, opacity in (("one", 255), ("other", int(album.rng.integers(90, 200)))):
        shown = photo.convert("RGBA")
        shown.putalpha(Image.new("L", photo.size, opacity))
        album.save(shown, f"{name}.png")


def sixteen_bits(album: Album) -> None:
    """A picture of 16 bits, and its form of 8."""
    grey = np.asarray(scene(album.rng).convert("L"), np.uint16)
    deep = grey * 256 + album.rng.integers(0, 256, grey.shape).astype(np.uint16)
    original = album.save(Image.fromarray(deep), "deep.png")
    album.may_go(album.save(Image.fromarray((deep // 256).astype(np.uint8)), "flat.png"), original)


def print_colours(album: Album) -> None:
    """A picture in the colours of a printer, and on a screen: the first cannot be made of the second."""
    photo = scene(album.rng)
    black = photo.convert("CMYK")
    original = album.save(black, "print.tiff")
    album.may_go(album.save(black.convert("RGB"), "screen.png"), original)


def fewer_colours(album: Album) -> None:
    """A picture, and its form with a palette: the first stays."""
    photo = scene(album.rng)
    original = album.save(photo, "full.png")
    album.may_go(album.save(photo.quantize(64), "palette.png"), original)


def black_and_white(album: Album) -> None:
    """A scan in grey, and in black and white: the first stays."""
    scan = page(album.rng).convert("L")
    original = album.save(scan, "grey.png")
    album.may_go(album.save(scan.convert("1"), "bits.tiff"), original)


def without_colours(album: Album) -> None:
    """A photograph and its smaller form in grey: the first stays."""
    photo = scene(album.rng)
    original = album.save(photo, "colour.jpg")
    album.may_go(album.save(scale(photo, album.pick(1.0, 0.7)).convert("L"), "grey.jpg", quality=85), original)


def other_orientation(album: Album) -> None:
    """The same compressed data, shown turned by one of the files."""
    content = encode(scene(album.rng), "JPEG", quality=90)
    album.write(content, "one.jpg")
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = album.pick(3, 6, 8)
    album.write(insert(content, exif.tobytes()), "other.jpg")


def film_behind(album: Album) -> None:
    """A motion photo, with its film behind the picture, and the picture alone."""
    content = encode(scene(album.rng), "JPEG", quality=90)
    film = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + album.rng.bytes(4000)
    album.may_go(album.write(content, "still.jpg"), album.write(content + film, "motion.jpg"))


def other_film_behind(album: Album) -> None:
    """Two motion photos with the same picture and another film."""
    content = encode(scene(album.rng), "JPEG", quality=90)
    for name in ("one", "other"):
        album.write(content + b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + album.rng.bytes(4000), f"{name}.jpg")


def second_view_behind(album: Album) -> None:
    """A picture with a second one behind it, as stereo cameras make, and the first alone."""
    first, second = scene(album.rng), scene(album.rng)
    both = album.save(first, "both.mpo", save_all=True, append_images=[second], quality=92)
    album.may_go(album.save(first, "first.jpg", quality=92), both)


def camera_exif(**entries: str) -> Image.Exif:
    exif = Image.Exif()
    for name, value in ({"Make": "Maker"} | entries).items():
        exif[ExifTags.Base[name].value] = value
    return exif


def save_with_part(album: Album, part: bytes, marker: int = 0xE1, behind: bytes = b"") -> None:
    """Save a picture with something embedded, and a longer file of the same coded picture without that."""
    content = insert(encode(scene(album.rng), "JPEG", quality=90), camera_exif().tobytes())
    album.write(insert(content, part, marker) + behind, "a.jpg")
    plain = content[:2] + b"\xff" * 60_000 + content[2:]
    album.may_go(album.write(plain, "b.jpg"), album.folder / "a.jpg")


def linear_profile_called_srgb(album: Album) -> None:
    """The same numbers in linear light are other colours, whatever the profile is called."""
    photo, profile = scene(album.rng), ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    linear = bytearray(profile)
    for name in (b"rTRC", b"gTRC", b"bTRC"):
        place = linear.find(name, 128)
        offset = int.from_bytes(linear[place + 4 : place + 8], "big")
        linear[offset : offset + 16] = b"curv\0\0\0\0" + struct.pack(">I", 1) + struct.pack(">HH", 256, 0)
    album.save(photo, "one.png", icc_profile=bytes(linear))
    album.save(photo, "other.png", icc_profile=profile, exif=camera_exif(Software="Editor"))


def profile_stripped(album: Album) -> None:
    """A copy without the original's profile shows other colours: nobody knows which are right, and both stay."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    place = profile.find(b"rXYZ", 128)
    offset = int.from_bytes(profile[place + 4 : place + 8], "big") + 8
    profile[offset : offset + 4] = struct.pack(">i", round(0.61 * 65536))
    content = encode(scene(album.rng), "JPEG", quality=93, icc_profile=bytes(profile), exif=camera_exif())
    album.write(content, "original.jpg")
    album.save(decode(content), "sent.jpg", quality=80)


def place_on_a_map(album: Album) -> None:
    """Two tiles of a map that look the same, as water does."""
    photo = scene(album.rng)
    for name, east in (("one", 500_000.0), ("other", 700_000.0)):
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags.tagtype[33922] = 12
        tags[33922] = (0.0, 0.0, 0.0, east, 5_600_000.0, 0.0)
        album.save(photo, f"{name}.tif", tiffinfo=tags)


def embedded_in_one(album: Album) -> None:
    """Thermal data, a signature, a depth map, or a path, in the shorter file alone."""
    path = b"Photoshop 3.0\x008BIM" + struct.pack(">H", 2000) + b"\x06Path 1\0" + struct.pack(">I", 52) + bytes(range(52))
    depth = b"http://ns.adobe.com/xmp/extension/\0" + b"A" * 32 + struct.pack(">II", 900, 0) + b"GDepth" * 150
    parts = (b"FLIR\0\1" + album.rng.bytes(900), 0xE1), (b"JP\0\1" + album.rng.bytes(900), 0xEB), (depth, 0xE1), (path, 0xED)
    save_with_part(album, *parts[int(album.rng.integers(len(parts)))])


def sound_behind(album: Album) -> None:
    """Only the shorter file has a sound behind the picture."""
    save_with_part(album, b"Exif\0\0", behind=b"SoundShot_000" + album.rng.bytes(3000) + b"SEFT")


def developed_in_one(album: Album) -> None:
    """Only the smaller file says how it was developed, or that it shows all around."""
    spaces = ("crs", "http://ns.adobe.com/camera-raw-settings/1.0/"), ("GPano", "http://ns.google.com/photos/1.0/panorama/")
    prefix, space = spaces[int(album.rng.integers(2))]
    save_with(album, xmp=XMP.format(attributes=f'xmlns:{prefix}="{space}" {prefix}:Said="+1.25"', elements=""))


def camera_in_one(album: Album) -> None:
    """Only the smaller file says how it was exposed, or has a title."""
    exif = camera_exif(**({"DocumentName": "Deed of 1931"} if album.rng.integers(2) else {}))
    if ExifTags.Base.DocumentName not in exif:
        exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.ExposureTime] = 0.004
    save_with(album, exif)


def other_gamma(album: Album) -> None:
    """The same numbers, which a viewer is to show brighter."""
    content, chunk = encode(scene(album.rng), "PNG"), b"gAMA" + struct.pack(">I", 100_000)
    album.write(content, "one.png")
    album.write(content[:33] + struct.pack(">I", 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + content[33:], "other.png")


def tag(number: int, value: object, ifd: int | None = None) -> Image.Exif:
    exif = Image.Exif()
    entries = exif if ifd is None else exif.get_ifd(ifd)
    entries[number] = value
    return exif


def locate() -> Image.Exif:
    exif = Image.Exif()
    gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
    gps[ExifTags.GPS.GPSLatitudeRef], gps[ExifTags.GPS.GPSLatitude] = "N", (48.0, 51.0, 30.0)
    gps[ExifTags.GPS.GPSLongitudeRef], gps[ExifTags.GPS.GPSLongitude] = "E", (2.0, 17.0, 40.0)
    return exif


KEYWORDS = "<dc:subject><rdf:Bag><rdf:li>lake</rdf:li><rdf:li>1998</rdf:li></rdf:Bag></dc:subject>"
NOTES: dict[str, Callable[[Album], tuple[Image.Exif, str]]] = {  # EXIF and XMP of the smaller file alone
    "place_in_one": lambda album: (locate(), ""),
    "caption_in_one": lambda album: (tag(ExifTags.Base.ImageDescription, "Grandmother at the lake"), ""),
    "author_in_one": lambda album: (tag(album.pick(ExifTags.Base.Artist, ExifTags.Base.Copyright), "Anna Berger"), ""),
    "comment_in_one": lambda album: (tag(ExifTags.Base.UserComment, b"ASCII\0\0\0the last summer", ExifTags.IFD.Exif), ""),
    "date_in_one": lambda album: (tag(ExifTags.Base.DateTimeOriginal, "1998:07:04 12:00:00", ExifTags.IFD.Exif), ""),
    "rating_in_one": lambda album: (Image.Exif(), XMP.format(attributes='xmp:Rating="5"', elements="")),
    "keywords_in_one": lambda album: (Image.Exif(), XMP.format(attributes="", elements=KEYWORDS)),
}


def noted(notes: Callable[[Album], tuple[Image.Exif, str]], album: Album) -> None:
    save_with(album, *notes(album))


def other_frames(ending: str, album: Album) -> None:
    for name, (first, *others) in zip(("one", "other"), frames_of(album), strict=True):
        options = {"lossless": True} if ending == "webp" else {}
        album.save(first, f"{name}.{ending}", save_all=True, append_images=others, duration=200, **options)


TABLE = {name: partial(noted, notes) for name, notes in NOTES.items()}
TABLE |= {f"other_frames_{ending}": partial(other_frames, ending) for ending in ("gif", "webp", "png")}
