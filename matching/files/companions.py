"""Files that belong to a picture and go where it goes: notes and edits, the film of a Live Photo, the RAW file of a JPEG."""

import os
from collections import defaultdict
from functools import lru_cache
from pathlib import Path, PurePath

from image_copies.data.formats import IMAGE_ENDINGS

_RAW = ".3fr .arw .cr2 .cr3 .dng .erf .iiq .kdc .mef .mos .mrw .nef .nrw .orf .pef .raf .raw .rw2 .rwl .sr2 .srf .srw .x3f"
RAW_ENDINGS = frozenset(_RAW.split())
COMPANION_ENDINGS = RAW_ENDINGS | {".xmp", ".aae", ".json", ".mov", ".mp4", ".thm"}
MAX_LISTED_FOLDERS = 64  # whose names are kept


def is_raw(path: Path) -> bool:
    """Whether a file is a camera's RAW file, of which a decoder sees no more than a small preview."""
    return path.suffix.lower() in RAW_ENDINGS


def find_companions(picture: Path) -> tuple[str, ...]:
    """Return the names of the files next to a picture that belong to it: IMG_1.xmp and IMG_1.jpg.json to IMG_1.jpg.

    Where several pictures have the same stem, IMG_1.xmp belongs to none of them alone, and stays.
    """
    try:
        names = _list_names(picture.parent, picture.parent.stat().st_mtime_ns)[_first_part(picture.name)]
    except OSError:
        return ()
    twins = [name for name in names if name != picture.name and _stem(name) == picture.stem and _ending(name) in IMAGE_ENDINGS]
    return tuple(
        name
        for name in names
        if name != picture.name
        and _ending(name) in COMPANION_ENDINGS
        and (name.startswith(f"{picture.name}.") or (_stem(name) == picture.stem and not twins))
    )


def find_pictures(raw: Path) -> list[str]:
    """Return the names of the pictures next to a RAW file that a camera wrote together with it."""
    try:
        names = _list_names(raw.parent, raw.parent.stat().st_mtime_ns)[_first_part(raw.name)]
    except OSError:
        return []
    return [name for name in names if _stem(name) == raw.stem and _ending(name) in IMAGE_ENDINGS]


@lru_cache(MAX_LISTED_FOLDERS)
def _list_names(folder: Path, changed: int) -> dict[str, list[str]]:
    """Return the names in a folder, as it was when it was last changed, by the part before the first dot."""
    names = defaultdict(list)
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names are wanted
        names[_first_part(name)].append(name)
    return names


def _first_part(name: str) -> str:
    return name.partition(".")[0]


def _stem(name: str) -> str:
    return PurePath(name).stem


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower()
