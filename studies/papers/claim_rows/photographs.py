"""Photographs with classes from a collection whose sources say where each comes from."""

import csv
from pathlib import Path

from image_copies.data.images import ImageSet
from image_copies.data.labels import LabelledImages, label_images, read_class_folders

SOURCES = "SOURCES.tsv"  # columns file, repository, path
COLLECTIONS = ("101_ObjectCategories/", "clothing-dataset", "Dog-Cat", "flower_photos")  # whose folders are classes
NO_CLASS = "BACKGROUND_Google"
MOST_OF_A_CLASS = 24


def read_photographs(folder: Path) -> LabelledImages:
    """Read class folders, or a collection with SOURCES.tsv: the class is the folder that a photograph had in its source.

    Raises:
        UserError: There are neither.
    """
    if not (folder / SOURCES).is_file():
        return read_class_folders(folder)
    of_class: dict[str, list[str]] = {}
    with (folder / SOURCES).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            source = Path(row["repository"], row["path"])
            if any(part in str(source) for part in COLLECTIONS) and source.parent.name != NO_CLASS:
                of_class.setdefault(source.parent.name, []).append(row["file"])
    chosen = [(name, file) for name in sorted(of_class) for file in of_class[name][:MOST_OF_A_CLASS]]
    paths = [folder / "training_images" / file for _, file in chosen]
    return label_images(ImageSet([Path(file).stem for _, file in chosen], paths), [name for name, _ in chosen])
