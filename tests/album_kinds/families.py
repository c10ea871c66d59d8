"""The kinds of albums by family."""

from tests.album_kinds import files, holdings, lookalikes, resaves, shots
from tests.album_kinds.kind import KINDS

FAMILIES = {
    module.__name__.rpartition(".")[2]: [name for name, make in KINDS.items() if make.__module__ == module.__name__]
    for module in (files, holdings, lookalikes, resaves, shots)
}
# of equal bytes deduplicate.py keeps the first by its path, whatever its name, and whatever lies next to it or leads to it
WRONG_IN_DEDUP = (
    "numbered_copy",
    "named_as_copy",
    "link_to_a_picture",
    "link_and_copy",
    "in_an_archive",
    "other_sidecars",
    "sidecar_of_one",
    "live_photos",
    "live_photo_and_still",
)
