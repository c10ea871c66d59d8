"""What a tool takes on disk with all that it needs, installed alone into a fresh folder.

    python benchmarks/installed.py [PACKAGE …]      of image-copies (this checkout), pdqhash, imagededup

Replaces rows of installed.json. Counted are the files for this Python and system, without compiled byte code.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from measurements import Measurements

TOP = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("installed.json")
PACKAGES = {
    "image-copies": [str(TOP)],
    "pdqhash": ["pdqhash", "numpy", "opencv-python"],  # which its own example takes
    "imagededup": ["imagededup"],
}


def measure(wanted: list[str]) -> dict[str, float]:
    """Return the megabytes of files, and how many packages there are."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "packages"
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", str(folder), *wanted]
        subprocess.run(command, check=True)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {"MB": round(size / 1e6, 1), "packages": len(list(folder.glob("*.dist-info")))}


def main() -> None:
    """Measure, and print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", choices=PACKAGES, default=list(PACKAGES), metavar="PACKAGE")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE.json")
    options = parser.parse_args()
    store = Measurements.open(options.results)
    for package in options.packages:
        figures = measure(PACKAGES[package])
        store.replace(package, {}, figures)
        print(f"{package}: {figures['MB']:,.0f} MB, {figures['packages']:.0f} packages", flush=True)


if __name__ == "__main__":
    main()
