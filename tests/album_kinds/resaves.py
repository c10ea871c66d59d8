"""Saved and edited copies: of re-saves nothing is missed, and no original goes for its edited form."""

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageOps

from tests.album_kinds.kind import Album, Picture, encode, kind
from tests.album_kinds.pictures import page, scale, scene

LARGE = 964  # pixels of an original of which half still has 480


def save_original(album: Album, shown: Picture | None = None) -> tuple[Picture, Path]:
    """Write an original as a camera does; returns what its file shows and its path."""
    content = encode(shown or scene(album.rng), "JPEG", quality=93)
    return Image.open(io.BytesIO(content)).convert("RGB"), album.write(content, "original.jpg")


@kind
def saved_as_jpeg(album: Album) -> None:
    photo, original = save_original(album)
    album.goes(album.save(photo, "copy.jpg", quality=int(album.rng.integers(50, 92))), original)


@kind
def saved_as_webp(album: Album) -> None:
    photo, original = save_original(album)
    album.goes(album.save(photo, "copy.webp", quality=int(album.rng.integers(50, 92))), original)


@kind
def saved_as_avif(album: Album) -> None:
    photo, original = save_original(album)
    album.goes(album.save(photo, "copy.avif", quality=int(album.rng.integers(50, 92))), original)


@kind
def saved_as_png(album: Album) -> None:
    """The pixels of a JPEG as PNG, which anybody would drop; where it stays instead, nothing visible is lost."""
    photo, original = save_original(album)
    album.one_stays(original, album.save(photo, "copy.png"))


@kind
def saved_again_and_again(album: Album) -> None:
    """As it goes from chat to chat: nothing is expected of it."""
    photo, original = save_original(album)
    for quality in (88, 80, 72):
        photo = Image.open(io.BytesIO(encode(photo, "JPEG", quality=quality))).convert("RGB")
    album.may_go(album.save(photo, "chat.jpg", quality=72), original)


@kind
def saved_smaller(album: Album) -> None:
    photo, original = save_original(album, scene(album.rng, LARGE))
    copy = scale(photo, float(album.rng.uniform(0.5, 0.9)))
    album.goes(album.save(copy, f"copy.{album.pick('jpg', 'webp')}", quality=int(album.rng.integers(60, 92))), original)


@kind
def saved_half_as_large(album: Album) -> None:
    photo, original = save_original(album, scene(album.rng, LARGE))
    album.goes(album.save(scale(photo, 0.5), "copy.jpg", quality=80), original)


@kind
def saved_as_thumbnail(album: Album) -> None:
    """Far smaller: nothing is expected of it, but the original stays."""
    photo, original = save_original(album)
    album.may_go(album.save(scale(photo, 0.25), "thumbnail.jpg", quality=80), original)


@kind
def saved_without_loss(album: Album) -> None:
    """Other bytes of the same pixels."""
    photo = scene(album.rng)
    album.one_stays(album.save(photo, "one.png", compress_level=1), album.save(photo, "other.png", compress_level=9))


@kind
def saved_in_another_lossless_form(album: Album) -> None:
    photo = scene(album.rng)
    album.one_stays(album.save(photo, "one.bmp"), album.save(photo, "other.tiff", compression="tiff_deflate"))


@kind
def saved_three_times(album: Album) -> None:
    """Three sizes of one photograph: the largest stays."""
    photo, original = save_original(album, scene(album.rng, LARGE))
    for number, factor in enumerate((0.8, 0.6)):
        album.goes(album.save(scale(photo, factor), f"copy-{number}.jpg", quality=85), original)


@kind
def scan_saved_smaller(album: Album) -> None:
    """A page, and its re-save: the page stays."""
    scan, original = save_original(album, page(album.rng, width=700))
    album.may_go(album.save(scale(scan, 0.8), "copy.jpg", quality=75), original)


@kind
def cropped(album: Album) -> None:
    """A part of a photograph goes at most, never the whole."""
    photo, original = save_original(album)
    part = photo.crop((photo.width // 10, photo.height // 12, photo.width, photo.height - photo.height // 10))
    album.may_go(album.save(part, "part.jpg", quality=80), original)


@kind
def cropped_and_enlarged(album: Album) -> None:
    photo, original = save_original(album)
    part = photo.crop((photo.width // 5, photo.height // 5, photo.width, photo.height))
    album.may_go(album.save(scale(part, 1.6), "part.jpg", quality=95), original)


@kind
def enlarged(album: Album) -> None:
    """An enlarged copy never replaces the original."""
    photo, original = save_original(album)
    album.may_go(album.save(scale(photo, album.pick(1.5, 2.0)), "enlarged.jpg", quality=95), original)


@kind
def stretched(album: Album) -> None:
    photo, original = save_original(album)
    album.may_go(album.save(photo.resize((photo.width, round(photo.height * 1.3))), "stretched.jpg", quality=95), original)


@kind
def framed(album: Album) -> None:
    photo, original = save_original(album)
    album.may_go(album.save(ImageOps.expand(photo, 24, album.pick("white", "black")), "framed.jpg", quality=95), original)


@kind
def on_a_screen(album: Album) -> None:
    """A photograph within a screen of a chat, with what was said about it."""
    photo, _original = save_original(album)
    screen = Image.new("RGB", (photo.width + 40, photo.height + 260), (230, 230, 235))
    screen.paste(photo, (20, 130))
    ImageDraw.Draw(screen).text((30, 30), "Look what I have found", "black", font_size=24)
    album.save(screen, "screen.png")


@kind
def in_a_collage(album: Album) -> None:
    photo, _original = save_original(album)
    collage = Image.new("RGB", (photo.width * 2, photo.height), "white")
    collage.paste(photo, (0, 0))
    collage.paste(scene(album.rng).resize(photo.size), (photo.width, 0))
    album.save(collage, "collage.jpg", quality=95)


@kind
def chain(album: Album) -> None:
    """Three shots of which each resembles the next, and a copy of the last."""
    large = scene(album.rng, 640)
    for number in range(3):
        left = 24 * number
        shot = large.crop((left, 0, large.width - 48 + left, large.height))
        path = album.save(shot, f"shot-{number}.jpg", quality=92)
    with Image.open(path) as shown:
        album.may_go(album.save(shown.convert("RGB"), "copy.jpg", quality=70), path)
