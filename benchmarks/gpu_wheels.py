"""Download the wheels that a machine with torch but without a network lacks, and check them before they travel.

python benchmarks/gpu_wheels.py DIR      # for Python 3.12 on Linux x86-64; docs/gpu.md says what is done with them
"""

import subprocess
import sys
import zipfile
from collections.abc import Collection
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

WHEELS = (
    *("faiss-cpu==1.15.1", "lightning-fabric==2.6.6", "pytorch-metric-learning==2.9.0", "augly==1.0.0"),
    *("pydantic==2.14.3", "pydantic-core==2.50.4", "annotated-types==0.8.0", "typing-inspection==0.4.5"),
)
THERE = (
    *("torch", "torchvision", "timm", "h5py", "opencv-python-headless", "pandas", "scikit-learn", "pytorch-lightning", "rich"),
    *("numpy", "tqdm", "packaging", "typing-extensions", "fsspec", "lightning-utilities"),  # which these bring
)
NOT_IMPORTED = ("augly",)  # its fonts and emoji are read as files
# pip takes the platforms literally: without the older ones it finds of pydantic-core only a placeholder of 1 KB
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
LEAST_BYTES = 10_000  # of a wheel that holds a library
TARGET = {"python_version": "3.12", "python_full_version": "3.12.0", "sys_platform": "linux", "platform_machine": "x86_64"}


def download(folder: Path) -> None:
    """Download the wheels, and none of what they require."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    python = ["--python-version", TARGET["python_version"], "--implementation", "cp", "--only-binary=:all:"]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *python, *platforms, "-d", str(folder), *WHEELS], check=True
    )


def find_faults(folder: Path, there: Collection[str], not_imported: Collection[str] = ()) -> list[str]:
    """List the wheels that hold no library, and what each requires that is neither among them nor `there`.

    What a package of `not_imported` requires is not needed.
    """
    wheels = {parse_wheel_filename(path.name)[0]: path for path in sorted(folder.glob("*.whl"))}
    faults = [f"{path.name}: {path.stat().st_size} bytes" for path in wheels.values() if path.stat().st_size < LEAST_BYTES]
    installed = {canonicalize_name(name) for name in there}
    for name, path in wheels.items():
        for needed in [] if name in not_imported else read_requirements(path):
            other = canonicalize_name(needed.name)
            if other in wheels:
                version = parse_wheel_filename(wheels[other].name)[1]
                if not needed.specifier.contains(version, prereleases=True):
                    faults.append(f"{path.name} requires {needed}, not {version}")
            elif other not in installed:
                faults.append(f"{path.name} requires {needed}")
    return faults


def read_requirements(wheel: Path) -> list[Requirement]:
    """Return what a wheel requires without extras on the machine that it is for."""
    with zipfile.ZipFile(wheel) as file:
        (metadata,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        lines = Parser().parsestr(file.read(metadata).decode()).get_all("Requires-Dist", [])
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.marker is None or one.marker.evaluate(TARGET | {"extra": ""})]


def main(folder: Path) -> int:
    download(folder)
    faults = find_faults(folder, THERE, NOT_IMPORTED)
    sizes = {path.name: path.stat().st_size / 2**20 for path in sorted(folder.glob("*.whl"))}
    print(*(f"{size:6.1f} MiB  {name}" for name, size in sizes.items()), f"{sum(sizes.values()):6.1f} MiB in all", sep="\n")
    print(*(f"error: {fault}" for fault in faults), sep="\n", end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
