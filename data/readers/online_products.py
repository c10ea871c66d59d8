"""Stanford Online Products: photos of 22,634 products, with the data set's own training/test split."""

from pathlib import Path

from image_copies.data.labels import LabelledImages, label_images
from image_copies.data.readers.expected import TrainTest, read_columns, require_images, require_names

LAYOUT = "Ebay_train.txt, Ebay_test.txt and the folders bicycle_final/, …, toaster_final/ (Stanford_Online_Products.zip)"
HEADER = "image_id class_id super_class_id path"


def read_online_products(root: Path | str) -> TrainTest:
    """Read the training and test images of Stanford_Online_Products/, or of the folder that contains it.

    Classes are products, ids are paths relative to the tables' folder.

    Raises:
        UserError: tables are missing or in another format, or listed images do not exist.
    """
    root = Path(root)
    require_names(root, LAYOUT)
    inside = root / "Stanford_Online_Products"
    folder = inside if inside.is_dir() else root
    require_names(folder, LAYOUT, "Ebay_train.txt", "Ebay_test.txt")
    return TrainTest(_part(folder, "Ebay_train.txt"), _part(folder, "Ebay_test.txt"))


def _part(folder: Path, table: str) -> LabelledImages:
    rows = read_columns(folder / table, 4, HEADER)
    return label_images(require_images(folder, [row[3] for row in rows], folder / table), [row[1].zfill(5) for row in rows])
