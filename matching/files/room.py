"""The room that carrying out a plan takes on other disks than the files' own."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from image_copies.data.files import is_there
from image_copies.matching.files.acting import LINKS
from image_copies.matching.files.journal import Way
from image_copies.matching.files.plan import PlanRow, list_companions
from image_copies.matching.files.trash import find_trash


@dataclass
class Room:
    """Room on a disk that files go to.

    Attributes:
        folder: An existing folder there.
        needed: Bytes of the files that come from other disks.
        free: Bytes that are free.
    """

    folder: Path
    needed: int
    free: int


def measure_room(rows: Iterable[PlanRow], way: Way, moved_to: Path) -> list[Room]:
    """Return the room on every disk that files go to; arguments as for `apply_plan`."""
    rooms: dict[int, Room] = {}
    for row in rows:
        for file in [row.file] * (row.action == "remove") + ([] if way in LINKS else list_companions(row)):
            try:
                state = file.lstat()
                place = moved_to if way == "move" else find_trash(file, moved_to / "trash")
            except OSError:
                continue  # gone, which is reported when its turn comes
            folder = next(folder for folder in (place, *place.parents) if is_there(folder))
            disk = folder.stat().st_dev
            room = rooms.setdefault(disk, Room(folder, 0, shutil.disk_usage(folder).free))
            room.needed += state.st_size if disk != state.st_dev else 0
    return list(rooms.values())
