"""Files: equal bytes, names, links, archives, damage, and what lies next to them. And pictures that show next to nothing."""

import os
import zipfile

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from tests.album_kinds.kind import Album
from tests.album_kinds.pictures import add_noise, page, scale, scene, thing, write
from tests.pictures import encode


def photo_bytes(album: Album) -> bytes:
    return encode(scene(album.rng), "JPEG", quality=90)


def equal_bytes(album: Album) -> None:
    content = photo_bytes(album)
    album.one_stays(*(album.write(content, name) for name in ("a.jpg", "b/a.jpg", "c/other.jpg")))


def numbered_copy(album: Album) -> None:
    """Of equal files the one without "(1)" stays."""
    content = photo_bytes(album)
    original = album.write(content, "IMG_007.jpg")
    for number in range(1, 3):
        album.goes(album.write(content, f"IMG_007 ({number}).jpg"), original)


def named_as_copy(album: Album) -> None:
    content = photo_bytes(album)
    original = album.write(content, "holiday.jpg")
    album.goes(album.write(content, album.pick("holiday - Copy.jpg", "Kopie von holiday.jpg", "holiday copy 2.jpg")), original)


def odd_names(album: Album) -> None:
    content = photo_bytes(album)
    names = [
        "-rf.jpg",
        "a\nb.jpg",
        'quo"te.jpg',
        "c,d;e.jpg",
        "u\u0308ber.jpg",
        "\u00fcber.jpg",
        " lead.jpg",
        "50%.jpg",
        "$HOME.jpg",
        "a\rb.jpg",
    ]
    chosen = [names[place] for place in album.rng.choice(len(names), 4, replace=False)]
    album.one_stays(*(album.write(content, name) for name in chosen))


def odd_names_of_lookalikes(album: Album) -> None:
    form = page(album.rng)
    for number, name in enumerate(("a\nkeep.jpg", "a\rkeep.jpg", "a.jpg,remove")):
        album.write(encode(write(form, (0.5, 0.9), f"Total: {100 + number}.00", 20), "JPEG", quality=90), name + ".jpg")


def hard_links(album: Album) -> None:
    """One file under two names, and a smaller copy: whatever goes, one name stays."""
    first = album.write(photo_bytes(album), "a.jpg")
    second = album.folder / "b.jpg"
    os.link(first, second)
    album.may_go(first, second)
    album.may_go(second, first)


def link_to_a_picture(album: Album) -> None:
    """A link never stays for the file to which it leads."""
    first = album.write(photo_bytes(album), "z.jpg")
    link = album.folder / "a.jpg"
    link.symlink_to(first.name)
    album.may_go(link, first)


def link_and_copy(album: Album) -> None:
    """Of a file and its copy one stays, though a link leads to one of them."""
    content = photo_bytes(album)
    first, second = album.write(content, "z/z.jpg"), album.write(content, "y.jpg")
    (album.folder / "a.jpg").symlink_to("z/z.jpg")
    album.may_go(album.folder / "a.jpg", first, second)
    album.one_stays(first, second)


def in_an_archive(album: Album) -> None:
    """A file never goes for a member of an archive."""
    content = photo_bytes(album)
    with zipfile.ZipFile(album.folder / "old.zip", "w") as archive:
        archive.writestr("a.jpg", content)
    album.write(content, "a.jpg")


def wrong_endings(album: Album) -> None:
    """A PNG file that is called JPEG: equal bytes all the same."""
    content = encode(scene(album.rng), "PNG")
    album.one_stays(album.write(content, "a.jpg"), album.write(content, "a.png"))


def cut_off(album: Album) -> None:
    """A download that ended early: the whole file stays."""
    content = photo_bytes(album)
    whole = album.write(content, "whole.jpg")
    album.may_go(album.write(content[: len(content) * 3 // 5], "cut.jpg"), whole)


def damaged_within(album: Album) -> None:
    """The larger one of two files has lost some of its bytes."""
    photo = scene(album.rng)
    whole = album.save(photo, "whole.jpg", quality=80)
    content = bytearray(encode(photo, "JPEG", quality=95))
    content[len(content) // 2 : len(content) // 2 + 3000] = bytes(3000)
    album.may_go(album.write(bytes(content), "damaged.jpg"), whole)


def other_sidecars(album: Album) -> None:
    """Equal pictures, each with notes of its own: no notes go."""
    content = photo_bytes(album)
    for name in ("one", "other"):
        album.write(content, f"{name}.jpg")
        album.write(f"<x:xmpmeta>{name}</x:xmpmeta>".encode(), f"{name}.xmp")


def sidecar_of_one(album: Album) -> None:
    """Of equal pictures the one with notes stays."""
    content = photo_bytes(album)
    noted = album.write(content, "z.jpg")
    album.write(b"<x:xmpmeta>5 stars</x:xmpmeta>", "z.xmp")
    album.goes(album.write(content, "a.jpg"), noted)


def sidecar_of_the_smaller(album: Album) -> None:
    """The notes lie next to the smaller one of two copies."""
    photo = scene(album.rng)
    original = album.save(photo, "large.jpg")
    album.may_go(album.save(scale(photo, 0.7), "small.jpg", quality=80), original)
    album.write(b"<x:xmpmeta>5 stars</x:xmpmeta>", "small.xmp")
    album.spare.clear()


def live_photos(album: Album) -> None:
    """Two Live Photos with the same picture and another film."""
    content = photo_bytes(album)
    for name in ("IMG_1", "IMG_2"):
        album.write(content, f"{name}.jpg")
        album.write(b"\0\0\0\x18ftypqt  " + album.rng.bytes(3000), f"{name}.mov")


def live_photo_and_still(album: Album) -> None:
    """A Live Photo, and its picture alone."""
    content = photo_bytes(album)
    live = album.write(content, "z.jpg")
    album.write(b"\0\0\0\x18ftypqt  " + album.rng.bytes(3000), "z.mov")
    album.goes(album.write(content, "a.jpg"), live)


def raw_and_jpeg(album: Album) -> None:
    """A RAW file with its JPEG, and a smaller copy of that."""
    photo = scene(album.rng)
    album.write(encode(photo, "TIFF"), "IMG_1.dng")
    original = album.save(photo, "IMG_1.jpg", quality=93)
    with Image.open(original) as shown:
        album.may_go(album.save(scale(shown.convert("RGB"), 0.8), "sent.jpg", quality=80), original)


def two_raw_files(album: Album) -> None:
    """RAW files of two shots with the same preview."""
    preview = scene(album.rng)
    for name in ("IMG_1", "IMG_2"):
        album.write(encode(preview, "TIFF") + album.rng.bytes(2000), f"{name}.dng")


def flat_pictures(album: Album) -> None:
    """Plain colours, and a plain gradient."""
    level = int(album.rng.integers(40, 200))
    for number, shade in enumerate((level, level + 1, level + 3)):
        album.save(Image.new("RGB", (300, 200), (shade, shade, shade)), f"{number}.png")
    album.save(Image.linear_gradient("L").convert("RGB"), "gradient.png")


def icons(album: Album) -> None:
    """Tiny pictures that differ in a few pixels."""
    icon = scene(album.rng, 200).resize((16, 16))
    for number in range(3):
        shown = icon.copy()
        shown.putpixel((4 + 3 * number, 8), (255, 0, 0))
        album.save(shown, f"{number}.png")


def small_buttons(album: Album) -> None:
    """Buttons with another word."""
    for word in ("Open", "Sale", "Exit"):
        album.save(write(Image.new("RGB", (90, 28), (60, 90, 160)), (0.2, 0.2), word, 14, "white"), f"{word}.png")


def faint_pages(album: Album) -> None:
    """Blank pages with faint words."""
    for number in range(2):
        words = f"Page {album.rng.integers(10, 99)}"
        album.save(write(Image.new("RGB", (420, 560), "white"), (0.4, 0.95), words, 12, "#dddddd"), f"{number}.jpg")


def night(album: Album) -> None:
    """Dark pictures in which hardly anything is seen."""
    for number in range(2):
        dark = scene(album.rng, 400).point(lambda value: value // 24)
        album.save(add_noise(dark.resize((400, 300)), album.rng, 3), f"{number}.jpg", quality=70)


def fog(album: Album) -> None:
    """Blurred pictures of different things."""
    for number in range(2):
        shown = scene(album.rng, 400).resize((400, 300)).filter(ImageFilter.GaussianBlur(30))
        album.save(shown, f"{number}.jpg")


def noise(album: Album) -> None:
    """Different pictures of nothing but noise."""
    for number in range(2):
        album.save(Image.fromarray(album.rng.integers(0, 256, (200, 300, 3)).astype(np.uint8)), f"{number}.png")


def patterns(album: Album) -> None:
    """The same pattern, wallpaper or fabric, with another thing on it."""
    tile = scene(album.rng, 120).resize((60, 60))
    for number in range(2):
        shown = Image.new("RGB", (480, 360))
        for left in range(0, 480, 60):
            for top in range(0, 360, 60):
                shown.paste(tile, (left, top))
        left, top = album.rng.integers(40, 280, 2).tolist()
        ImageDraw.Draw(shown).ellipse((left, top, left + 60, top + 60), "red" if number else "blue")
        album.save(shown, f"{number}.jpg")


def different_scenes(album: Album) -> None:
    """Pictures that have nothing in common."""
    for number in range(4):
        album.save(scene(album.rng), f"{number}.jpg")


def different_products(album: Album) -> None:
    """Products of a shop before the same white."""
    for number in range(4):
        album.save(thing(album.rng), f"{number}.jpg")


def settings_of_one(album: Album) -> None:
    """Of equal pictures the one with a sound or a program's settings next to it stays."""
    content, ending = photo_bytes(album), album.pick("WAV", "pp3", "dop", "txt", "jpg.pp3")
    noted = album.write(content, "z/P.jpg")
    album.write(b"what belongs to it", f"z/P.{ending}")
    album.goes(album.write(content, "a/P.jpg"), noted)


def other_notes_of_an_archive(album: Album) -> None:
    """Notes that Google names by the number of a picture belong to that alone."""
    content, ending = photo_bytes(album), album.pick("json", "supplemental-metadata(1).json")
    for name in ("IMG_7.jpg", "IMG_7(1).jpg"):
        album.write(content, name)
    album.write(b'{"description": "one"}', "IMG_7.jpg.json")
    album.write(b'{"description": "other"}', "IMG_7.jpg(1).json" if ending == "json" else f"IMG_7.jpg.{ending}")


def library_of_a_program(album: Album) -> None:
    """What a program keeps in its library, it would miss."""
    content = photo_bytes(album)
    kept = album.write(content, f"{album.pick('Photos.photoslibrary', 'Previews.lrdata', '.git')}/originals/0/0A7F.jpg")
    album.may_go(album.write(content, "A_export/IMG_0.jpg"), kept)


def made_of_a_jpeg_elsewhere(album: Album) -> None:
    """Next to another photograph of the scene, the JPEG stays of which a BMP was made."""
    photo = scene(album.rng)
    original = album.write(encode(photo, "JPEG", quality=90), "c/orig.jpg")
    album.may_go(album.save(Image.open(original).convert("RGB"), "c/conv.bmp"), original)
    album.save(add_noise(photo, album.rng, 4).resize((photo.width + 8, photo.height + 6)), "a.jpg", quality=97)
