"""What a first answer costs: processor seconds and memory of whole commands, and the size of the installation.

    python benchmarks/startup.py PHOTOS [--pictures 300] [--repeats 3] [--program "python OTHER/pipeline/match.py"]

Every line is the least of the repeats, after one that is not counted, each a new process: user and system time of the command
and its children. `--program` measures another checkout; the size is that of the packages of the Python that runs this.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path
from sysconfig import get_path

from rich.console import Console
from rich.table import Table

from image_copies.data.errors import UserError
from image_copies.data.images import find_images


def measure(command: list[str], folder: Path, repeats: int) -> tuple[float, float, float]:
    """Return the least processor seconds and wall seconds of a command, and its largest resident memory in MiB.

    Raises:
        UserError: It fails.
    """
    found = []
    for _ in range(repeats + 1):
        shutil.rmtree(folder / "matches", ignore_errors=True)  # with the vectors that are kept
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) not in (0, 1):  # 1: two pictures are no copies
            raise UserError(f"{shlex.join(command)} failed: {said.strip().splitlines()[-1:]}")
        found.append((usage.ru_utime + usage.ru_stime, time.perf_counter() - started, usage.ru_maxrss / 1024))
    processor, wall, memory = zip(*found[1:], strict=True)
    return min(processor), min(wall), max(memory)


def measure_size() -> tuple[int, float]:
    """Return the number of installed packages and their size in MB, without pip."""
    site = Path(get_path("purelib"))
    files = (path for path in site.rglob("*") if path.is_file() and not path.relative_to(site).parts[0].startswith("pip"))
    names = {each.metadata["Name"].lower() for each in distributions(path=[str(site)])}
    return len(names - {"pip"}), sum(path.stat().st_blocks * 512 for path in files) / 1e6


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--program", type=shlex.split, help="default: image-copies of this checkout or installation")
    options = parser.parse_args()
    program = options.program or [sys.executable, "-m", "image_copies.pipeline.command"]
    images = find_images(options.photos).paths[: options.pictures]
    table = Table("command", "processor s", "wall s", "memory MiB", title=shlex.join(program))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "photos").mkdir()
        for path in images:
            shutil.copy(path, folder / "photos")
        one, other = (f"photos/{path.name}" for path in images[:2])
        search = ["match", "--queries", "photos"] if options.program is None else ["--queries", "photos"]
        lines = {
            "--help": ["--help"],
            "compare two files by their vectors": [one, other, "--verify", "0"],
            "compare two files": [one, other],
            f"search {len(images)} files by their vectors": [*search, "--verify", "0"],
            f"search {len(images)} files": search,
        }
        for label, arguments in lines.items():
            processor, wall, memory = measure([*program, *arguments], folder, options.repeats)
            table.add_row(label, f"{processor:.2f}", f"{wall:.2f}", f"{memory:.0f}")
    console = Console(width=120)
    console.print(table)
    packages, size = measure_size()
    console.print(f"installed: {packages} packages, {size:.0f} MB")


if __name__ == "__main__":
    main()
