"""Write requirements/licences.md: the licence of every pinned package, as the installed ones say it.

python requirements/licences.py > requirements/licences.md       in an environment with requirements-cluster.txt
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[1]
UNSAID = {  # packages that say it elsewhere than in a field that a program reads
    "faiss-cpu": "MIT (takes the place of faiss-gpu elsewhere than on Linux x86-64)",
    "cuda-toolkit": "NVIDIA Proprietary (a package without code)",
    "pi-heif": "BSD-3-Clause; its wheels LGPL-3.0-or-later, with libheif and libde265, which only decode",
    "pytorch-metric-learning": "MIT",
}
KINDS = (  # first that matches
    ("GPL, copyleft", re.compile(r"(?<!L)GPL|GNU General")),
    ("NVIDIA's own, for its GPUs", re.compile(r"NVIDIA|Proprietary", re.IGNORECASE)),
    ("weak copyleft: changed files stay open", re.compile(r"MPL|Mozilla|LGPL")),
    (
        "permissive",
        re.compile(
            r"MIT|BSD|Apache|PSF|Python Software|ISC|Zlib|HPND|Unlicense|CNRI|3-Clause|2-clause",
            re.IGNORECASE,
        ),
    ),
)
HEAD = """# Dependencies and their licences

Written by `python requirements/licences.py > requirements/licences.md` from what the installed packages say of themselves: every
package of `requirements/versions.txt` and of `requirements/versions-cluster.txt` (clusters and object stores), with those that
only development needs. What it means for use and for passing on stands in [SECURITY.md](../SECURITY.md#licences).
"""


def licence_of(package: str) -> str:
    """The licence that an installed package declares; "not installed" and "not declared" where there is none to read."""
    if canonicalize_name(package) in UNSAID:
        return UNSAID[canonicalize_name(package)]
    try:
        about = metadata(package)
    except PackageNotFoundError:
        return "not installed"
    if "License-Expression" in about:
        return about["License-Expression"]
    classified = [
        line.split(" :: ")[-1] for line in about.get_all("Classifier", []) if line.startswith("License ::")
    ]
    said = " ".join(str(about.json.get("license", "")).split())
    useful = [name for name in classified if name not in ("OSI Approved", "Other/Proprietary License")]
    return (
        ", ".join(useful) or (said if 0 < len(said) < 60 else "") or ", ".join(classified) or "not declared"
    )


def kind_of(licence: str) -> str:
    """What kind of licence it is, in the words of the table."""
    return next((kind for kind, pattern in KINDS if pattern.search(licence)), "unknown: to be looked at")


def main() -> None:
    """Print the page."""
    files = [TOP / "requirements" / name for name in ("versions.txt", "versions-cluster.txt")]
    lines = [
        line
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    pins = sorted((line.split("==") for line in lines), key=lambda pin: pin[0].lower())
    rows = [(name, version, licence_of(name)) for name, version in pins]
    sys.stdout.write(HEAD)
    kinds: dict[str, list[str]] = {}
    for name, version, licence in rows:
        kinds.setdefault(kind_of(licence), []).append(f"- {name} {version}: {licence}\n")
    for kind, packages in sorted(kinds.items(), key=lambda item: len(item[1])):
        sys.stdout.write(f"\n## {kind[0].upper()}{kind[1:]} ({len(packages)})\n\n{''.join(packages)}")


if __name__ == "__main__":
    main()
