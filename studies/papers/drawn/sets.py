"""Data sets with classes in two parts, and a trained network with its training size."""

from pathlib import Path

from claim_rows.training import select_classes

from image_copies.data.labels import read_class_folders
from image_copies.data.readers import TrainTest, read_cars, read_cub, read_online_products
from image_copies.models.device import best_device
from image_copies.models.inference.protocols import View
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network

READERS = {"cub": read_cub, "cars": read_cars, "online_products": read_online_products}
SETS = (*READERS, "class_folders")


def read_set(data_set: str, root: Path) -> TrainTest:
    """Read one of SETS; of class folders every second class is for testing."""
    if data_set in READERS:
        return READERS[data_set](root)
    found = read_class_folders(root)
    return TrainTest(*(select_classes(found, range(first, len(found.names), 2)) for first in (0, 1)))


def open_view(checkpoint: Path, size: int | None = None) -> View:
    """Open a network; it shows images as evaluate.py does by default, at the training size where none is given."""
    found = load_descriptor(checkpoint)
    descriptor = require_trained_network(found, checkpoint).eval().to(best_device())
    size = size or found.image_size
    return View(descriptor, size, "center_crop" if size <= found.image_size else "long_side")
