"""Checking a teacher's file before a training begins, so that the error does not come after hours."""

from pathlib import Path

from image_copies.data.errors import UserError


def require_teacher(teacher: Path) -> None:
    """Check that a teacher's file is there.

    Raises:
        UserError: It is missing.
    """
    if not teacher.is_file():
        whole = str(teacher).rpartition("#")[0]
        hint = f" One member of a joined descriptor cannot teach: name all of it, `teacher: {whole}`." if whole else ""
        raise UserError(
            f"{teacher}: no such file. `teacher` of the recipe names a descriptor: a checkpoint, or what export.py writes.{hint}"
        )


def check_new_teacher(teacher: Path, folder: Path) -> None:
    """Check that a teacher's file is there, and that a training that begins in `folder` would not overwrite it.

    Raises:
        UserError: The file is missing, or is one of the training's own.
    """
    require_teacher(teacher)
    if teacher.resolve().parent == folder.resolve():
        raise UserError(
            f"{teacher} cannot teach the training in {folder}, which would overwrite it. Copy it to another folder and name the "
            "copy with `teacher`."
        )
