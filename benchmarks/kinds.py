"""Edited copies of pictures of several kinds that nothing has learnt from: a folder in ISC2021's layout, for quality.py.

    python benchmarks/kinds.py PICTURES kinds [--every N]
    python benchmarks/quality.py kinds --docs

PICTURES has training_images/ and SOURCES.tsv, which names the repository of each file. Every Nth picture is a reference, the
others are training images. In query_edits.csv the kind of the picture stands for the edits, which are those of the synthetic
queries of what ships.
"""

import argparse
from pathlib import Path

import pandas as pd

from image_copies.augmentations.query_set import make_query_set
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.data.layout import GROUND_TRUTH, QUERY_EDITS, REFERENCE, TRAINING
from image_copies.pipeline.run.cli import report_errors

KINDS = {
    "MachineLearning2020/Homework2-Caltech101": "objects",
    "alexeygrigorev/clothing-dataset-small": "garments",
    "marcusklasson/GroceryStoreDataset": "groceries",
    "LukeSmithxyz/based.cooking": "food",
    "openstax/osbooks-workplace-software-skills": "screens",
    "MicrosoftDocs/windows-driver-docs": "screens",
    "nrennie/tidytuesday": "charts",
    "nrennie/30DayChartChallenge": "charts",
    "nrennie/30DayMapChallenge": "maps",
    "zzzDavid/ICDAR-2019-SROIE": "receipts",
    "datacarpentry/image-processing": "microscopy",
    "Shenggan/BCCD_Dataset": "microscopy",
}
TEXTBOOKS = "openstax/"  # of all but one of its repositories: figures and photographs
COPIES, EDITS = 3, AugmentationSettings(intensity=0.7, extra=True)  # copies of each picture


def make_kinds(pictures: Path, folder: Path, every: int) -> None:
    """Write the folder: links to the pictures, edited copies of every so many, the ground truth and each copy's kind."""
    images = find_images(pictures / TRAINING)
    references = images.select(images.ids[::every])
    training = images.select([image_id for row, image_id in enumerate(images.ids) if row % every])
    copies = COPIES * len(references)
    make_query_set(references, training, training, EDITS, seed=0, count=copies, copies=copies, folder=folder)
    for name, linked in ((REFERENCE, references), (TRAINING, training)):
        link_images(folder / name, linked)
    listed = pd.read_csv(pictures / "SOURCES.tsv", sep="\t")
    kinds = {
        Path(file).stem: choose_kind(repository) for file, repository in zip(listed["file"], listed["repository"], strict=True)
    }
    rows = [(query, kinds[reference]) for query, reference in sorted(read_ground_truth(folder / GROUND_TRUTH).pairs)]
    pd.DataFrame(rows, columns=["query_id", "edits"]).to_csv(folder / QUERY_EDITS, index=False)


def choose_kind(repository: str) -> str:
    """Return the kind of a repository's pictures; "other" for one that KINDS lacks."""
    return KINDS.get(repository, "textbooks" if repository.startswith(TEXTBOOKS) else "other")


def link_images(folder: Path, images: ImageSet) -> None:
    """Make a folder of links to images."""
    folder.mkdir()
    for path in images.paths:
        (folder / path.name).symlink_to(path.resolve())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path, metavar="PICTURES")
    parser.add_argument("output", type=Path, metavar="DIR", help="a new folder, whose name is the set's in the tables")
    parser.add_argument("--every", type=int, default=8, metavar="N", help="default: %(default)s")
    options = parser.parse_args()
    with report_errors():
        make_kinds(options.pictures, options.output, options.every)


if __name__ == "__main__":
    main()
