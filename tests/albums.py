"""An album with a plan by which most of its files go, for tests that count files afterwards."""

import hashlib
import os
from pathlib import Path

from image_copies.matching.files.plan import PlanRow, write_plan

GROUPS, COPIES = 4, 5


def write_album(where: Path) -> None:
    """Write album/ of files that all differ, and matches/plan.csv, by which the first file of each group stays."""
    (where / "album").mkdir()
    rows = []
    for group in range(1, GROUPS + 1):
        kept = where / "album" / f"{group}-0.jpg"
        for copy in range(COPIES):
            file = where / "album" / f"{group}-{copy}.jpg"
            file.write_bytes(os.urandom(2000))
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            rows.append(PlanRow(group, "remove" if copy else "keep", file, kept, "", None, None, False, digest))
    write_plan(where / "matches" / "plan.csv", rows)


def pictures_below(folder: Path) -> set[bytes]:
    """What all pictures below a folder hold."""
    return {path.read_bytes() for path in folder.rglob("*.jpg") if not path.is_symlink()}
