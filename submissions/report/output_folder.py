"""Where a page may be written: a page may replace an older page of this project, but nothing else."""

from pathlib import Path

from image_copies.data.errors import UserError

MARK = '<meta name="generator" content="image-copy-detection">'  # in the head of every page


def check_output_folder(folder: Path, option: str) -> None:
    """Check that a page may be written to the folder that this option named: it is missing, empty or holds an older page.

    Raises:
        UserError: when the folder holds anything else, or is a file.
    """
    if not folder.exists():
        return
    if folder.is_dir() and (not any(folder.iterdir()) or _is_page(folder / "index.html")):
        return
    raise UserError(
        f"{folder} exists and is neither empty nor a page of this project: it is left alone. Choose another {option}."
    )


def _is_page(path: Path) -> bool:
    return path.is_file() and MARK in path.read_text(encoding="utf-8", errors="replace")
