"""Files, pairs, groups and what became of them, as the review page shows them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from image_copies.data.errors import text_of
from image_copies.matching.files.acting import Outcome
from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.plan import PlanRow, facts_values
from image_copies.matching.matches import PICTURED

MAX_CACHED_FACTS = 2000
SURE = 60  # certainty from which a pair is worth a look before those about which little is known
MAX_SHOWN_LEFT = 20  # files that were left alone


def facts_of(path: Path) -> Facts:
    """Return the facts of a file, which are read once."""
    try:
        return _read_facts(path, path.stat().st_mtime_ns)
    except OSError:
        return picture_facts(path)  # inside an archive, or gone


@lru_cache(MAX_CACHED_FACTS)
def _read_facts(path: Path, modified: int) -> Facts:
    """Return the facts of a file as it is since `modified`, which tells it from an earlier one of its name."""
    return picture_facts(path)


def show_name(path: Path) -> dict[str, str]:
    """Return a file's name and its folder."""
    return {"name": text_of(Path(path.name)), "folder": text_of(path.parent)}


def show_facts(facts: Facts) -> dict[str, Any]:
    """Return what is known of a file, by name."""
    stamp, known = datetime.fromtimestamp(facts.modified // 10**9), facts_values(facts)
    return {name: known[name] for name in ("width", "height", "bytes", "format", "taken", "exif_entries")} | {
        **show_name(facts.path),
        "modified": str(stamp) if facts.modified else "",
        "sharpness": facts.sharpness,
    }


def rank_group(rows: Sequence[PlanRow]) -> int:
    """Return 0 for a group of which files go, or nothing is asked; 1 for one that is worth a look, 2 for a doubtful one."""
    asked = [row.judgement for row in rows if row.action == "review"]
    if not asked or any(row.action == "remove" for row in rows):
        return 0
    return 1 if any(each is None or each.certainty >= SURE for each in asked) else 2


def sum_bytes(rows: Sequence[PlanRow], removed: Collection[Path]) -> int:
    """Return the bytes of the files that would go, without those that are removed already."""
    return sum(
        row.facts.size
        for row in rows
        if row.action == "remove" and row.facts is not None and row.file not in removed
    )


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return how many files were dealt with, and which were left alone, with the reasons."""
    left = [[text_of(path), reason] for path, reason in outcome.left[:MAX_SHOWN_LEFT]]
    return {"done": len(outcome.done), "left": left, "left_files": len(outcome.left)}


def show_values(values: Mapping[str, Any], turned: bool) -> dict[str, Any]:
    """Return what is known of a pair by name, and its regions, if it has any, in the order in which its files are shown."""
    regions = [values[name] for name in ("query_region", "reference_region") if name in values]
    others = {name: value for name, value in values.items() if name not in PICTURED}
    return {"values": others, "regions": regions[::-1] if turned else regions}
