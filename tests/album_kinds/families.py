"""The kinds of albums by family."""

from tests.album_kinds import files, holdings, lookalikes, resaves, shots
from tests.album_kinds.kind import KINDS

FAMILIES = {
    module.__name__.rpartition(".")[2]: [name for name, make in KINDS.items() if make.__module__ == module.__name__]
    for module in (files, holdings, lookalikes, resaves, shots)
}
# kinds of which deduplicate.py may let files go that anybody would miss
_WRONG_IN_DEDUP = """
numbered_copy named_as_copy link_to_a_picture link_and_copy in_an_archive other_sidecars sidecar_of_one live_photos
live_photo_and_still other_pin other_caption other_stamp other_colour_of_product other_small_product other_spot
other_plate added_caption added_sticker added_logo brightened graded warmer sharpened grainy mirrored turned inverted
cropped_and_enlarged enlarged stretched framed on_a_screen burst_of_a_small_thing eyes_closed bracket another_exposure
focus_stack another_light
"""
WRONG_IN_DEDUP = frozenset(_WRONG_IN_DEDUP.split())
