"""Look the locked packages up in an offline copy of the OSV database: known vulnerabilities of what is installed.

python requirements/audit.py --osv all.zip      exit code 0: none, 1: some, 2: the check did not run

The copy is OSV's export of the PyPI ecosystem: a zip archive with a JSON record for each vulnerability. It is downloaded apart:
this project reaches no network by itself.
"""

import argparse
import json
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

PINNED = re.compile(r"([A-Za-z0-9._-]+)==([0-9][^;\s\\]*)")


@dataclass(frozen=True)
class Finding:
    """A known vulnerability of a locked package.

    Attributes:
        package: Its name.
        version: That is locked.
        record: Id of the OSV record.
        summary: What the record says, in a line.
    """

    package: str
    version: str
    record: str
    summary: str


def read_lock(path: Path) -> dict[str, str]:
    """Package → locked version."""
    found = (PINNED.match(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {canonicalize_name(match[1]): match[2] for match in found if match}


def find_vulnerabilities(locked: dict[str, str], database: Path) -> Iterator[Finding]:
    """Yield every record of the copy that names a locked version, or a range of versions that it lies in."""
    with zipfile.ZipFile(database) as archive:
        for name in archive.namelist():
            record = json.loads(archive.read(name))
            if "withdrawn" in record:
                continue
            for affected in record.get("affected", []):
                package = canonicalize_name(affected.get("package", {}).get("name", ""))
                if package in locked and _is_affected(locked[package], affected):
                    summary = record.get("summary") or record.get("details", "")[:100]
                    yield Finding(package, locked[package], record["id"], " ".join(summary.split()))
                    break


def _is_affected(version: str, affected: dict[str, Any]) -> bool:
    if version in affected.get("versions", []):
        return True
    return any(_in_range(Version(version), each.get("events", [])) for each in affected.get("ranges", []))


def _in_range(version: Version, events: list[dict[str, str]]) -> bool:
    """OSV's events in order: introduced opens a range, fixed closes it before a version, last_affected behind one."""
    within = False
    for event in events:
        (kind, text), *_ = event.items()
        try:
            bound = Version(text)
        except InvalidVersion:  # a commit: ranges of git say nothing of releases
            return False
        if kind == "introduced" and version >= bound:
            within = True
        elif (kind == "fixed" and version >= bound) or (kind == "last_affected" and version > bound):
            within = False
    return within


def main() -> int:
    """Print what is found, or that the check did not run."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--osv", type=Path, metavar="ZIP", help="OSV's export of the PyPI ecosystem")
    options.add_argument(
        "--lock", type=Path, metavar="FILE", default=Path(__file__).with_name("py313.lock")
    )
    chosen = options.parse_args()
    locked = read_lock(chosen.lock)
    if chosen.osv is None or not chosen.osv.is_file():
        print(
            f"NOT RUN: {len(locked)} locked packages were not looked up. Give a copy of the database: --osv all.zip"
        )
        return 2
    try:
        found = list(find_vulnerabilities(locked, chosen.osv))
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        print(
            f"NOT RUN: {chosen.osv} is not a copy of the database that can be read ({error!r}). Download it again."
        )
        return 2
    for each in found:
        print(f"{each.package} {each.version}: {each.record} {each.summary}")
    print(f"{len(found)} known vulnerabilities in {len(locked)} locked packages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
