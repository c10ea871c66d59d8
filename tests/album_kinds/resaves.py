"""Saved and edited copies: of re-saves nothing is missed, and no original goes for its edited form."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PIL import Image, ImageDraw, ImageOps

from tests.album_kinds.kind import Album, Picture
from tests.album_kinds.pictures import page, scale, scene
from tests.pictures import decode, encode

LARGE = 964  # pixels of an original of which half still has 480


def save_original(album: Album, shown: Picture | None = None) -> tuple[Picture, Path]:
    """Write an original as a camera does; returns what its file shows and its path."""
    content = encode(shown or scene(album.rng), "JPEG", quality=93)
    return decode(content), album.write(content, "original.jpg")


def saved_as_png(album: Album) -> None:
    """The pixels of a JPEG as PNG, which anybody would drop; where it stays instead, nothing visible is lost."""
    photo, original = save_original(album)
    album.one_stays(original, album.save(photo, "copy.png"))


def saved_again_and_again(album: Album) -> None:
    """As it goes from chat to chat: nothing is expected of it."""
    photo, original = save_original(album)
    for quality in (88, 80, 72):
        photo = decode(encode(photo, "JPEG", quality=quality))
    album.may_go(album.save(photo, "chat.jpg", quality=72), original)


def saved_smaller(album: Album) -> None:
    photo, original = save_original(album, scene(album.rng, LARGE))
    copy = scale(photo, float(album.rng.uniform(0.5, 0.9)))
    album.goes(album.save(copy, f"copy.{album.pick('jpg', 'webp')}", quality=int(album.rng.integers(60, 92))), original)


def saved_half_as_large(album: Album) -> None:
    photo, original = save_original(album, scene(album.rng, LARGE))
    album.goes(album.save(scale(photo, 0.5), "copy.jpg", quality=80), original)


def saved_without_loss(album: Album) -> None:
    """Other bytes of the same pixels."""
    photo = scene(album.rng)
    album.one_stays(album.save(photo, "one.png", compress_level=1), album.save(photo, "other.png", compress_level=9))


def saved_in_another_lossless_form(album: Album) -> None:
    photo = scene(album.rng)
    album.one_stays(album.save(photo, "one.bmp"), album.save(photo, "other.tiff", compression="tiff_deflate"))


def saved_three_times(album: Album) -> None:
    """Three sizes of one photograph: the largest stays."""
    photo, original = save_original(album, scene(album.rng, LARGE))
    for number, factor in enumerate((0.8, 0.6)):
        album.goes(album.save(scale(photo, factor), f"copy-{number}.jpg", quality=85), original)


def scan_saved_smaller(album: Album) -> None:
    """A page, and its re-save: the page stays."""
    scan, original = save_original(album, page(album.rng, width=700))
    album.may_go(album.save(scale(scan, 0.8), "copy.jpg", quality=75), original)


def on_a_screen(album: Album) -> None:
    """A photograph within a screen of a chat, with what was said about it."""
    photo, _original = save_original(album)
    screen = Image.new("RGB", (photo.width + 40, photo.height + 260), (230, 230, 235))
    screen.paste(photo, (20, 130))
    ImageDraw.Draw(screen).text((30, 30), "Look what I have found", "black", font_size=24)
    album.save(screen, "screen.png")


def in_a_collage(album: Album) -> None:
    photo, _original = save_original(album)
    collage = Image.new("RGB", (photo.width * 2, photo.height), "white")
    collage.paste(photo, (0, 0))
    collage.paste(scene(album.rng).resize(photo.size), (photo.width, 0))
    album.save(collage, "collage.jpg", quality=95)


def chain(album: Album) -> None:
    """Three shots of which each resembles the next, and a copy of the last."""
    large = scene(album.rng, 640)
    for number in range(3):
        left = 24 * number
        shot = large.crop((left, 0, large.width - 48 + left, large.height))
        path = album.save(shot, f"shot-{number}.jpg", quality=92)
    with Image.open(path) as shown:
        album.may_go(album.save(shown.convert("RGB"), "copy.jpg", quality=70), path)


def saved(ending: str, album: Album) -> None:
    photo, original = save_original(album)
    album.goes(album.save(photo, f"copy.{ending}", quality=int(album.rng.integers(50, 92))), original)


def cut_off(album: Album, photo: Picture) -> Picture:
    return ImageOps.crop(photo, (photo.width // 10, photo.height // 12, 0, photo.height // 10))


def cut_off_and_enlarge(album: Album, photo: Picture) -> Picture:
    return scale(photo.crop((photo.width // 5, photo.height // 5, *photo.size)), 1.6)


# What is made of a photograph, the name of its file and its quality: it goes at most, never the original.
EDITS: dict[str, tuple[Callable[[Album, Picture], Picture], str, int]] = {
    "saved_as_thumbnail": (lambda album, photo: scale(photo, 0.25), "thumbnail", 80),
    "cropped": (cut_off, "part", 80),
    "cropped_and_enlarged": (cut_off_and_enlarge, "part", 95),
    "enlarged": (lambda album, photo: scale(photo, album.pick(1.5, 2.0)), "enlarged", 95),
    "stretched": (lambda album, photo: photo.resize((photo.width, round(photo.height * 1.3))), "stretched", 95),
    "framed": (lambda album, photo: ImageOps.expand(photo, 24, album.pick("white", "black")), "framed", 95),
}


def edited(edit: Callable[[Album, Picture], Picture], name: str, quality: int, album: Album) -> None:
    photo, original = save_original(album)
    album.may_go(album.save(edit(album, photo), f"{name}.jpg", quality=quality), original)


TABLE = {name: partial(edited, *edit) for name, edit in EDITS.items()}
TABLE |= {f"saved_as_{form}": partial(saved, ending) for form, ending in (("jpeg", "jpg"), ("webp", "webp"), ("avif", "avif"))}
