"""Look-alikes: pictures that differ in what matters and in little else. None may go."""

from collections.abc import Callable
from functools import partial

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter

from tests.album_kinds.kind import Album, Picture
from tests.album_kinds.pictures import add_noise, caption, page, scale, scene, thing, turn_hue, write


def save_two(album: Album, one: Picture, other: Picture) -> None:
    """Save two look-alikes: as one format and quality, or the second one smaller or compressed more."""
    quality = int(album.rng.integers(60, 96))
    album.save(one, "one.jpg", quality=quality)
    again = album.pick("same", "same", "worse", "smaller", "webp")
    if again == "smaller":
        other = scale(other, 0.7)
    worse = int(album.rng.integers(10, 60)) if again == "worse" else quality
    album.save(other, "other.webp" if again == "webp" else "other.jpg", quality=worse)


def other_digit(album: Album) -> None:
    """A receipt of which one digit differs."""
    form = page(album.rng, lines=10)
    number = int(album.rng.integers(1000, 9000))
    save_two(album, *(write(form, (0.55, 0.8), f"No. {value}", 15) for value in (number, number + album.pick(1, 3, 500))))


def other_digit_squeezed(album: Album) -> None:
    """The same, the second one of a very low quality."""
    form = page(album.rng, lines=10)
    one, other = (write(form, (0.55, 0.8), f"20{digit}91", 15) for digit in "38")
    album.save(one, "one.jpg", quality=95)
    album.save(other, "other.jpg", quality=int(album.rng.integers(8, 20)))


def other_total(album: Album) -> None:
    """An invoice with another total."""
    form = page(album.rng)
    save_two(album, *(write(form, (0.5, 0.9), f"Total: {album.rng.integers(100, 999)}.00", 20) for _ in range(2)))


def other_name(album: Album) -> None:
    """A certificate made out to another person."""
    form = page(album.rng, lines=6)
    save_two(album, *(write(form, (0.2, 0.7), name, 32) for name in ("Anna Berger", album.pick("Hans Berger", "Uwe Adam"))))


def other_page(album: Album) -> None:
    """Two letters below the same letterhead."""
    pages = [page(album.rng, lines=14) for _ in range(2)]
    head = pages[0].crop((0, 0, pages[0].width, pages[0].width // 8))
    pages[1].paste(head, (0, 0))
    save_two(album, pages[0], pages[1])


def other_line(album: Album) -> None:
    """Two screens of the same program, one with another line selected."""
    screens = [page(album.rng, lines=15)] * 2
    for number, row in enumerate(album.rng.choice(13, 2, replace=False).tolist()):
        top = round(screens[number].width * (0.16 + 0.055 * row))
        marked = screens[number].copy()
        ImageDraw.Draw(marked).rectangle((20, top - 3, marked.width - 20, top + 17), outline="blue", width=2)
        screens[number] = marked
    save_two(album, screens[0], screens[1])


def other_bar(album: Album) -> None:
    """A chart of which one bar is higher."""
    heights = album.rng.integers(40, 280, 12)

    def draw() -> Picture:
        shown = Image.new("RGB", (480, 360), "white")
        for place, height in enumerate(heights.tolist()):
            left = 30 + 36 * place
            ImageDraw.Draw(shown).rectangle((left, 330 - height, left + 24, 330), (40, 90, 180))
            ImageDraw.Draw(shown).text((left + 4, 335), str(place), "black")
        return shown

    first = draw()
    heights[album.rng.integers(12)] += album.pick(15, 25, -20)
    save_two(album, first, draw())


def other_position(album: Album) -> None:
    """A board with one piece on another square."""
    squares = album.rng.choice(64, 20, replace=False).tolist()

    def draw(occupied: list[int]) -> Picture:
        shown = Image.new("RGB", (480, 480), (240, 220, 180))
        for square in range(64):
            left, top = 60 * (square % 8), 60 * (square // 8)
            if (square + square // 8) % 2:
                ImageDraw.Draw(shown).rectangle((left, top, left + 59, top + 59), (150, 100, 60))
        for number, square in enumerate(occupied):
            left, top = 60 * (square % 8) + 15, 60 * (square // 8) + 15
            ImageDraw.Draw(shown).ellipse((left, top, left + 30, top + 30), "black" if number % 2 else "white")
        return shown

    save_two(album, draw(squares[:-1]), draw(squares[1:]))


def other_pin(album: Album) -> None:
    """A map with the pin elsewhere."""
    ground = scene(album.rng).filter(ImageFilter.GaussianBlur(1))
    maps = []
    for _ in range(2):
        left, top = album.rng.integers(60, 300, 2).tolist()
        shown = ground.copy()
        ImageDraw.Draw(shown).ellipse((left, top, left + 18, top + 18), "red", "white", 3)
        maps.append(shown)
    save_two(album, maps[0], maps[1])


def other_code(album: Album) -> None:
    """A label with another code of squares."""
    label = page(album.rng, lines=6)
    labels = []
    for _ in range(2):
        code = Image.fromarray((album.rng.integers(0, 2, (21, 21)) * 255).astype("uint8")).resize((168, 168), 0).convert("RGB")
        labels.append(label.copy())
        labels[-1].paste(code, (150, 330))
    save_two(album, labels[0], labels[1])


def other_caption(album: Album) -> None:
    """A meme with another caption."""
    photo = scene(album.rng)
    save_two(
        album, *(caption(photo, words) for words in ("WHEN IT IS MONDAY", album.pick("ALL OF US 1998", "WHEN IT IS SUNDAY")))
    )


def other_stamp(album: Album) -> None:
    """A photograph with another date in its corner."""
    photo = scene(album.rng)
    save_two(album, *(write(photo, (0.65, 0.92), words, 16, "orange") for words in ("24.12.1998", "26.12.1998")))


def other_number(album: Album) -> None:
    """A shirt with another number."""
    photo = scene(album.rng)
    ImageDraw.Draw(photo).rectangle((150, 120, 260, 240), "white")
    digits = album.rng.choice(10, 2, replace=False).tolist()
    save_two(album, *(write(photo, (170 / photo.width, 130 / photo.height), str(digit), 80) for digit in digits))


def other_colour_of_product(album: Album) -> None:
    """A product picture before white of another colour, the same size or smaller."""
    product = thing(album.rng)
    other = turn_hue(product, int(album.rng.integers(30, 220)))
    album.save(product, "one.jpg")
    album.save(scale(other, album.pick(1.0, 0.6)), "other.jpg")


def other_small_product(album: Album) -> None:
    """A small thing before a wide white ground, of another colour."""
    product = Image.new("RGB", (560, 560), "white")
    product.paste(thing(album.rng, 240), (160, 160))
    album.save(product, "one.jpg")
    album.save(scale(turn_hue(product, int(album.rng.integers(30, 220))), album.pick(1.0, 0.5)), "other.jpg")


def other_ground(album: Album) -> None:
    """A product before another ground."""
    seed = int(album.rng.integers(1000))
    one, other = (thing(np.random.default_rng(seed), ground=ground) for ground in ("white", album.pick("black", "lightblue")))
    save_two(album, one, other)


def other_spot(album: Album) -> None:
    """A photograph and its retouched form, from which a thing has gone."""
    photo = scene(album.rng)
    shown = photo.copy()
    left, top = album.rng.integers(80, 220, 2).tolist()
    ImageDraw.Draw(shown).ellipse((left, top, left + 36, top + 36), tuple(album.rng.integers(0, 255, 3).tolist()))
    save_two(album, shown, photo)


def other_plate(album: Album) -> None:
    """A photograph and its form of which a part was made unreadable."""
    photo = write(scene(album.rng), (0.4, 0.5), "B-XY 1234", 26, "white")
    shown, box = (
        photo.copy(),
        (round(0.38 * photo.width), photo.height // 2, round(0.38 * photo.width) + 160, photo.height // 2 + 34),
    )
    shown.paste(shown.crop(box).filter(ImageFilter.GaussianBlur(7)), box)
    save_two(album, photo, shown)


def added_sticker(album: Album) -> None:
    """A photograph and its form with a sticker, which is the larger one."""
    photo = scene(album.rng)
    shown = photo.copy()
    ImageDraw.Draw(shown).ellipse((160, 120, 240, 200), "yellow", "black", 3)
    album.save(shown, "one.jpg", quality=97)
    album.save(scale(photo, 0.8), "other.jpg", quality=80)


def added_watermark(album: Album) -> None:
    """A clean photograph, smaller, and the larger one with a watermark all over."""
    photo = scene(album.rng)
    layer = Image.new("RGBA", photo.size)
    for top in range(20, photo.height, 90):
        layer.alpha_composite(
            write(Image.new("RGBA", photo.size), (0.1, top / photo.height), "SAMPLE  SAMPLE  SAMPLE", 34, "#ffffff70")
        )
    marked = Image.alpha_composite(photo.convert("RGBA"), layer).convert("RGB")
    clean = album.save(scale(photo, album.pick(1.0, 0.7)), "clean.jpg", quality=85)
    album.may_go(album.save(marked, "marked.jpg", quality=95), clean)


def added_logo(album: Album) -> None:
    """A clean photograph and its form with a ring in the corner."""
    photo = scene(album.rng)
    marked = photo.copy()
    ImageDraw.Draw(marked).ellipse(
        (photo.width - 50, photo.height - 50, photo.width - 14, photo.height - 14), outline="white", width=4
    )
    clean = album.save(scale(photo, album.pick(1.0, 0.75)), "clean.jpg", quality=90)
    album.may_go(album.save(marked, "marked.jpg", quality=95), clean)


def annotated(album: Album) -> None:
    """A page, and the same with a note by hand."""
    form = page(album.rng)
    noted = form.copy()
    points = [(60 + 12 * step, 500 + int(album.rng.integers(-14, 14))) for step in range(14)]
    ImageDraw.Draw(noted).line(points, (20, 20, 160), 3)
    save_two(album, form, noted)


def ticked(album: Album) -> None:
    """A form with another box ticked."""
    form = page(album.rng, lines=12)
    forms = []
    for row in album.rng.choice(8, 2, replace=False).tolist():
        shown = form.copy()
        for box in range(8):
            ImageDraw.Draw(shown).rectangle((12, 80 + 50 * box, 28, 96 + 50 * box), outline="black")
        ImageDraw.Draw(shown).line((14, 82 + 50 * row, 26, 94 + 50 * row), "black", 2)
        forms.append(shown)
    save_two(album, forms[0], forms[1])


def smoothed(album: Album) -> None:
    """A photograph and its smoothed form: the original stays."""
    photo = scene(album.rng)
    original = album.save(photo, "original.jpg", quality=93)
    album.may_go(album.save(photo.filter(ImageFilter.GaussianBlur(1.2)), "smooth.jpg", quality=93), original)


def turned(album: Album) -> None:
    """A photograph and its form turned by a quarter."""
    photo = scene(album.rng)
    album.save(photo, "one.jpg")
    album.save(photo.transpose(album.pick(Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180)), "other.jpg")


def warm(photo: Picture, factor: float) -> Picture:
    red, green, blue = photo.split()
    return Image.merge("RGB", (red.point(lambda v: round(v * factor)), green, blue.point(lambda v: round(v / factor))))


# What somebody made of a photograph: either may be the one to keep.
EDITS: dict[str, Callable[[Album, Picture], Picture]] = {
    "added_caption": lambda album, photo: caption(photo, "ALL OF US 1998"),
    "brightened": lambda album, photo: ImageEnhance.Brightness(photo).enhance(album.pick(0.75, 1.15, 1.3)),
    "graded": lambda album, photo: ImageEnhance.Color(photo).enhance(album.pick(0.6, 1.5)),
    "warmer": lambda album, photo: warm(photo, album.pick(1.08, 1.15)),
    "sharpened": lambda album, photo: photo.filter(ImageFilter.UnsharpMask(2, 120, 1)),
    "grainy": lambda album, photo: add_noise(photo, album.rng, 9),
    "mirrored": lambda album, photo: photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "inverted": lambda album, photo: photo.point(lambda value: 255 - value),
}


def edited(edit: Callable[[Album, Picture], Picture], album: Album) -> None:
    photo = scene(album.rng)
    save_two(album, photo, edit(album, photo))


TABLE = {name: partial(edited, edit) for name, edit in EDITS.items()}
