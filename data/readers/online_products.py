"""Stanford Online Products: 22,634 articles, split into training and test articles by its own tables."""

from pathlib import Path

from data.labels import LabelledImages, with_classes
from data.readers.expected import TrainTest, existing, expect, rows_of

LAYOUT = "Ebay_train.txt, Ebay_test.txt and the folders bicycle_final/, …, toaster_final/ (Stanford_Online_Products.zip)"
HEADER = "image_id class_id super_class_id path"


def read_online_products(root: Path | str) -> TrainTest:
    """Classes are articles; ids are paths below `root`.

    root: the folder Stanford_Online_Products/, or the one that holds it. UserError: missing tables, lines of another form,
    images that are listed but not there.
    """
    root = Path(root)
    expect(root, LAYOUT)
    inside = root / "Stanford_Online_Products"
    folder = inside if inside.is_dir() else root
    expect(folder, LAYOUT, "Ebay_train.txt", "Ebay_test.txt")
    return TrainTest(_part(folder, "Ebay_train.txt"), _part(folder, "Ebay_test.txt"))


def _part(folder: Path, table: str) -> LabelledImages:
    rows = rows_of(folder / table, 4, HEADER)
    return with_classes(existing(folder, [row[3] for row in rows], folder / table), [row[1].zfill(5) for row in rows])
