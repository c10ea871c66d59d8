"""Names of edit functions stand in records on disk; the parameters that the tables draw are those that the functions take."""

import inspect
import json
from typing import get_args

import numpy as np
import pytest

from image_copies.augmentations.composition import TABLES
from image_copies.augmentations.edits.registry import FAMILY_OF, FUNCTIONS, OTHER_IMAGE, Image, edit
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.settings import EditFamily
from image_copies.augmentations.tables.beyond_paper import EXTRA_TABLE
from image_copies.augmentations.tables.row import Edit
from image_copies.data.kinds import EDIT_TABLES, load_kind

OF_PAPERS = {table: load_kind(EDIT_TABLES, table) for table in EDIT_TABLES}
ROWS = {
    f"{table}-{row.name}": row for table, rows in (*TABLES.items(), *OF_PAPERS.items(), ("extra", EXTRA_TABLE)) for row in rows
}  # row by a name for messages
# As they were when the first records were written: a name that is gone makes old query sets impossible to replay.
NAMES = {
    "auto_augment", "blur", "border", "collage", "color_jitter", "crop", "double_compression", "encoding_quality",
    "grayscale", "hflip", "invert_channels", "letterbox", "meme_format", "moire", "onto_screenshot", "opacity",
    "overlay_emoji", "overlay_image", "overlay_onto_image", "overlay_stripes", "overlay_text", "pad", "pad_to_square",
    "pca_lighting", "perspective", "photo_filter", "pixelization", "resized_crop", "rotate", "rotate_whole", "scale",
    "sharpen", "shift_channels", "shuffle_pixels", "sticker", "swap_channels", "vflip", "watermark",
    "grain", "halftone", "hide_boxes", "lens", "motion_blur", "scribble", "shear", "sketch", "solarize", "wave",
    "break_blocks", "confetti", "creases", "crumple", "crystals", "cut_round", "defocus", "dither", "double_exposure", "duotone",
    "engrave", "equalize", "fade_into", "film_strip", "fog", "frosted_glass", "glow", "in_document", "ink", "mirror_part",
    "on_phone", "outline", "paint", "photocopy", "photographed_print", "posterize", "rain", "relief", "repeat", "ripple",
    "scan_lines", "screen_pixels", "shadow", "shift_strips", "shuffle_tiles", "snow", "space_tiles", "speech_bubbles",
    "split_tone", "spots", "stains", "swirl", "tear_edges", "tear_rows", "tone_curve", "turn_hue", "two_tones", "zoom_blur",
    "expose", "vignette", "grid", "inset",
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("intensity", [0.0, 0.3, 0.75, 1.0])
def test_drawn_parameters_fit_the_function(row: Edit, intensity: float) -> None:
    image = np.zeros((8, 8, 3), np.uint8)
    drawn_functions = set()
    for number in range(20):
        function, parameters = row.draw(generator_for(5, number, row.name), intensity)
        drawn_functions.add(function)
        assert json.loads(json.dumps(parameters)) == parameters
        pasted = {OTHER_IMAGE[function.__name__]: image} if function.__name__ in OTHER_IMAGE else {}
        assert not pasted.keys() & parameters.keys()
        signature = inspect.signature(function)
        signature.bind(image, **parameters, **pasted)  # TypeError where one is missing or unknown
        chosen = signature.parameters.keys() - {"folder"}  # of templates, which a recipe gives
        assert chosen == {"image", *parameters, *pasted}  # no default takes a drawn value's place
    assert drawn_functions == set(row.functions)


def test_the_registered_names_are_those_in_existing_records_each_of_one_family_and_in_a_table() -> None:
    assert set(FUNCTIONS) == NAMES
    assert all(function.__name__ == name for name, function in FUNCTIONS.items())
    assert OTHER_IMAGE == {
        "overlay_image": "overlay",
        "overlay_onto_image": "background",
        "collage": "overlay",
        "grid": "overlay",
        "inset": "background",
        "sticker": "overlay",
        "double_exposure": "other",
        "fade_into": "other",
    }
    assert set(FAMILY_OF) == set(FUNCTIONS) and set(FAMILY_OF.values()) == set(get_args(EditFamily))
    assert all({FAMILY_OF[function.__name__] for function in row.functions} == {row.family} for row in ROWS.values())
    assert {FAMILY_OF[name] for name in OTHER_IMAGE} == {"paste", "blend", "layout"}
    assert {function.__name__ for row in ROWS.values() for function in row.functions} == NAMES
    pasting = {"overlay_image", "sticker", "collage", "hide_inside", "double_exposure", "fade_into", "grid", "inset"}
    assert {row.name for row in ROWS.values() if row.needs_overlay} == pasting

    def crop(image: Image) -> Image:
        return image

    with pytest.raises(ValueError, match="two edits named crop"):
        edit("crop")(crop)
    assert FUNCTIONS["crop"] is not crop
