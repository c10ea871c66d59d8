"""The same edits as plain AugLy calls on Pillow images, the baseline for our edits' pixels and speed."""

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from image_copies.augmentations.composition import OverlaySource, Record, replay
from image_copies.augmentations.edits.registry import OTHER_IMAGE

Call = Callable[..., Image.Image]
# these fail in AugLy or do not exist there
OURS_ONLY = frozenset({"perspective", "meme_format", "invert_channels", "swap_channels", "shift_channels"})


@lru_cache(maxsize=1)
def augly_calls() -> dict[str, Call]:
    """Return AugLy's equivalent of each of our edit functions, taking our parameters.

    Importing AugLy takes seconds and needs libmagic.
    """
    import pylibmagic  # noqa: F401 (provides libmagic if the system has none; must be imported before AugLy)
    from augly import image as augly

    spec = find_spec("augly")
    assets = Path(str(spec.origin)).parent / "assets" if spec else Path()
    emoji = sorted((assets / "twemojis").rglob("*.png"))
    fonts = sorted(path for path in (assets / "fonts").glob("*.ttf") if path.with_suffix(".pkl").is_file())
    templates = sorted((assets / "screenshot_templates").glob("*.png"))
    return {
        "scale": lambda i, factor: augly.scale(i, factor=factor),
        "hflip": augly.hflip,
        "vflip": augly.vflip,
        "rotate": lambda i, degrees: augly.rotate(i, degrees=degrees),
        "crop": lambda i, x1, y1, x2, y2: augly.crop(i, x1=x1, y1=y1, x2=x2, y2=y2),
        "pad": lambda i, width_share, height_share, colour: augly.pad(
            i, w_factor=width_share, h_factor=height_share, color=tuple(colour)
        ),
        "pad_to_square": lambda i, colour: augly.pad_square(i, color=tuple(colour)),
        "color_jitter": lambda i, brightness, contrast, saturation: augly.color_jitter(
            i, brightness_factor=brightness, contrast_factor=contrast, saturation_factor=saturation
        ),
        "grayscale": lambda i: augly.grayscale(i, mode="luminosity"),
        "opacity": lambda i, level: augly.opacity(i, level=level),
        "encoding_quality": lambda i, quality: augly.encoding_quality(i, quality=quality),
        "blur": lambda i, radius: augly.blur(i, radius=radius),
        "sharpen": lambda i, factor: augly.sharpen(i, factor=factor),
        "shuffle_pixels": lambda i, share, seed: augly.shuffle_pixels(i, factor=share),
        "pixelization": lambda i, ratio: augly.pixelization(i, ratio=ratio),
        "overlay_image": lambda i, overlay, opacity, size, x, y: augly.overlay_image(
            i, overlay=overlay, opacity=opacity, overlay_size=size, x_pos=x, y_pos=y
        ),
        "overlay_onto_image": lambda i, background, opacity, size, x, y: augly.overlay_onto_background_image(
            i, background_image=background, opacity=opacity, overlay_size=size, x_pos=x * (1 - size), y_pos=y * (1 - size)
        ),
        "overlay_emoji": lambda i, emoji_, opacity, size, x, y: augly.overlay_emoji(
            i, emoji_path=str(emoji[emoji_ % len(emoji)]), opacity=opacity, emoji_size=size, x_pos=x, y_pos=y
        ),
        "overlay_text": lambda i, text, font, size, colour, opacity, x, y: augly.overlay_text(
            i,
            text=[ord(letter) % 60 for letter in text],
            font_file=str(fonts[font % len(fonts)]),
            font_size=size,
            opacity=opacity,
            color=tuple(colour),
            x_pos=x,
            y_pos=y,
        ),
        "overlay_stripes": lambda i, width, degrees, density, line, opacity, colour: augly.overlay_stripes(
            i,
            line_width=width,
            line_color=tuple(colour),
            line_angle=degrees,
            line_density=density,
            line_type=line,
            line_opacity=opacity,
        ),
        "onto_screenshot": lambda i, template: augly.overlay_onto_screenshot(
            i, template_filepath=str(templates[template % len(templates)])
        ),
    }


def replay_with_augly(image: Image.Image, record: Record, other_images: OverlaySource) -> Image.Image:
    """Apply a record with AugLy's functions, or with ours for the edits in `OURS_ONLY`."""
    for entry in record:
        function = entry["function"]
        if function in OURS_ONLY:
            image = Image.fromarray(replay(np.asarray(image), [entry], other_images))
            continue
        parameters: dict[str, Any] = {key: value for key, value in entry.items() if key not in ("edit", "function")}
        if function in OTHER_IMAGE:
            name = OTHER_IMAGE[function]
            parameters[name] = Image.fromarray(other_images(parameters[name]))
        if function == "overlay_emoji":
            parameters["emoji_"] = parameters.pop("emoji")
        image = augly_calls()[function](image, **parameters).convert("RGB")
    return image
