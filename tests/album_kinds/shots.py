"""Several shots of one scene, as bursts, brackets and films hold them. None may go."""

import cv2
import numpy as np
from PIL import ExifTags, Image, ImageDraw, ImageEnhance, ImageFilter

from tests.album_kinds.kind import Album, Picture
from tests.album_kinds.pictures import add_noise, frame, from_array, scene, shift, write


def save_shots(album: Album, shots: list[Picture], dates: list[str] | None = None) -> None:
    """Save the shots as one camera does."""
    quality = int(album.rng.integers(85, 97))
    for number, shot in enumerate(shots):
        exif = Image.Exif()
        if dates is not None:
            exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Maker", "Camera 1"
            exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = dates[number]
        album.save(shot, f"IMG_{number:04}.jpg", quality=quality, exif=exif)


def put_in(album: Album, ground: Picture, thing: Picture, side: int, step: tuple[int, int]) -> list[Picture]:
    """Two exposures of a thing that moves before a ground."""
    left, top = (int(album.rng.integers(40, bound - side - 60)) for bound in ground.size)
    shots = []
    for place in ((left, top), (left + step[0], top + step[1])):
        shown = ground.copy()
        shown.paste(thing.crop((0, 0, side, side)), place)
        shots.append(add_noise(shown, album.rng))
    return shots


def burst(album: Album) -> None:
    """A thing moves before a still ground."""
    step = int(album.rng.integers(6, 24))
    save_shots(album, put_in(album, scene(album.rng), scene(album.rng, 300), 120, (step, step // 2)))


def burst_of_a_small_thing(album: Album) -> None:
    """A small thing moves."""
    save_shots(album, put_in(album, scene(album.rng), scene(album.rng, 200), 36, (int(album.rng.integers(14, 40)), 4)))


def burst_with_dates(album: Album) -> None:
    """Two shots within a second of one camera, which says so."""
    photo = scene(album.rng)
    shots = [add_noise(photo, album.rng, 3) for _ in range(2)]
    save_shots(album, shots, ["2024:05:04 12:00:00", "2024:05:04 12:00:01"])


def eyes_closed(album: Album) -> None:
    """Two shots of which one detail differs."""
    photo = scene(album.rng)
    shown = photo.copy()
    for left in (200, 250):
        ImageDraw.Draw(photo).ellipse((left, 150, left + 22, 172), "white", "black", 3)
        ImageDraw.Draw(shown).line((left, 161, left + 22, 161), "black", 3)
    save_shots(album, [add_noise(each, album.rng) for each in (photo, shown)])


def depths(album: Album) -> None:
    """The camera moved: near and far are displaced against each other."""
    large = scene(album.rng, 600)
    x = np.zeros((large.height, large.width), np.float32)
    step = float(album.rng.uniform(3, 9))
    x[:, : large.width // 3], x[large.height // 2 :] = step, step / 2
    save_shots(album, [frame(each) for each in (large, add_noise(shift(large, x, 0 * x), album.rng))])


def panning(album: Album) -> None:
    """The camera turned: each picture shows something that the other does not."""
    large = scene(album.rng, 640)
    step = int(album.rng.integers(6, 24))
    save_shots(album, [frame(large), add_noise(frame(large, 24 + step, 24 + step // 2), album.rng)])


def panorama(album: Album) -> None:
    """Overlapping parts of a panorama."""
    large = scene(album.rng, 900)
    width = large.width * 2 // 3
    save_shots(album, [large.crop((left, 0, left + width, large.height)) for left in (0, large.width - width)])


def another_angle(album: Album) -> None:
    """The same wall from another point of view."""
    photo = scene(album.rng)
    corners = np.array([[0, 0], [photo.width, 0], [photo.width, photo.height], [0, photo.height]], np.float32)
    seen = corners + album.rng.uniform(-35, 0, (4, 2)).astype(np.float32) * np.array(
        [[1, 1], [-1, 1], [-1, -1], [1, -1]], np.float32
    )
    matrix = cv2.getPerspectiveTransform(corners, seen.astype(np.float32))
    turned = cv2.warpPerspective(np.asarray(photo), matrix, photo.size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    save_shots(album, [photo, add_noise(Image.fromarray(np.asarray(turned, np.uint8)), album.rng)])


def bracket(album: Album) -> None:
    """Three exposures of one scene: nothing moves, and all are needed."""
    photo = scene(album.rng)
    save_shots(album, [add_noise(ImageEnhance.Brightness(photo).enhance(factor), album.rng) for factor in (1.0, 0.6, 1.5)])


def another_exposure(album: Album) -> None:
    """Two exposures of a still scene from a tripod: only their noise differs."""
    photo = scene(album.rng)
    save_shots(album, [add_noise(photo, album.rng, float(album.rng.uniform(3, 7))) for _ in range(2)])


def focus_stack(album: Album) -> None:
    """Two pictures with the focus near and far."""
    photo = scene(album.rng)
    mask = Image.linear_gradient("L").resize(photo.size)
    blurred = photo.filter(ImageFilter.GaussianBlur(2.5))
    shots = [Image.composite(photo, blurred, mask), Image.composite(blurred, photo, mask)]
    save_shots(album, [add_noise(each, album.rng) for each in shots])


def another_light(album: Album) -> None:
    """The same place in another light."""
    photo = scene(album.rng)
    light = np.asarray(Image.linear_gradient("L").rotate(90 * int(album.rng.integers(4))).resize(photo.size), np.float32)[
        ..., None
    ]
    lit = from_array(np.asarray(photo, np.float32) * (0.55 + light / 320))
    save_shots(album, [photo, add_noise(lit, album.rng)])


def film(album: Album) -> None:
    """Frames of a film with other subtitles."""
    photo = scene(album.rng)
    words = ("What did you say?", "Nothing at all.")
    save_shots(album, [write(add_noise(photo, album.rng, 1), (0.3, 0.88), line, 20, "white") for line in words])


def portraits(album: Album) -> None:
    """Passport pictures: another face before the same ground."""
    faces = []
    for _ in range(2):
        shown = Image.new("RGB", (400, 500), (210, 220, 230))
        face = scene(album.rng, 260).resize((180, 240))
        mask = Image.new("L", face.size)
        ImageDraw.Draw(mask).ellipse((0, 0, 179, 239), fill=255)
        shown.paste(face, (110, 110), mask)
        faces.append(shown)
    save_shots(album, faces)
