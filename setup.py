"""Installs the packages at the top of the repository under one name, image_copies. Everything else is in pyproject.toml."""

from contextlib import suppress
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.editable_wheel import editable_wheel

TOP = Path(__file__).parent
FOLDERS = ("augmentations", "data", "matching", "models", "pipeline", "recipes", "studies", "submissions")


def link_folders(inside: Path) -> None:
    """Link the folders into image_copies/, where type checkers and editors look for modules: they follow no import hook."""
    for old in inside.iterdir():
        if old.is_symlink():
            old.unlink()
    for folder in FOLDERS:
        (inside / folder).symlink_to(Path("..", folder), target_is_directory=True)


class EditableWithLinks(editable_wheel):  # type: ignore[misc]  # setuptools comes without types
    """An editable installation, with links for type checkers and editors."""

    def run(self) -> None:
        """Link, where the file system has links and may be written to, and install."""
        with suppress(OSError):
            link_folders(TOP / "image_copies")
        super().run()


packages = find_namespace_packages(
    str(TOP), include=[f"{folder}{below}" for folder in FOLDERS for below in ("", ".*")]
)
setup(
    packages=["image_copies", *(f"image_copies.{package}" for package in packages)],
    package_dir={f"image_copies.{folder}": folder for folder in FOLDERS},
    cmdclass={"editable_wheel": EditableWithLinks},
)
