"""The kinds of albums by family, and those of which a plan removes too much today."""

from tests.album_kinds import files, holdings, lookalikes, resaves, shots
from tests.album_kinds.kind import KINDS

FAMILIES = {
    module.__name__.rpartition(".")[2]: [name for name, make in KINDS.items() if make.__module__ == module.__name__]
    for module in (files, holdings, lookalikes, resaves, shots)
}
METADATA = "metadata that the kept file lacks are not asked for, but for a date"
COMPANIONS = "what lies next to a picture goes with it, though what stays has other companions"
WRONG_TODAY = {
    "other_sidecars": COMPANIONS,
    "live_photos": COMPANIONS,
    "place_in_one": METADATA,
    "caption_in_one": METADATA,
    "author_in_one": METADATA,
    "rating_in_one": METADATA,
    "keywords_in_one": METADATA,
    "comment_in_one": METADATA,
    "iptc_in_one": METADATA,
    "date_of_editing": "the date of an edit passes for that of the exposure",
    "same_pixels_other_notes": METADATA,
    "text_in_png": METADATA,
    "other_profile": "profiles are not compared",
    "other_film_behind": "what lies behind a picture in its file is not compared",
}
