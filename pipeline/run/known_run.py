"""The run that a tool beside the steps works with: one that is there already, never a new one."""

import argparse
from pathlib import Path

from data.errors import UserError
from pipeline.run.paths import named_path
from pipeline.run.stage import Run, latest_run, open_run


def add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=named_path, metavar="DIR", help="the run's data set, where it has been moved")


def open_known_run(folder: Path | None, data: Path | None) -> Run:
    """The run in this folder, or the latest one under runs/."""
    folder = folder or latest_run()
    if not (folder / "run.json").is_file():
        raise UserError(f"{folder} is not a run: it holds no run.json. Name a run's folder, or start one with: bash run_all.sh")
    return open_run(argparse.Namespace(run=folder, recipe=None, data=data))
