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
from image_copies.data.errors import UserError
from image_copies.data.ground_truth import read_ground_truth, write_table
from image_copies.data.images import find_images
from image_copies.data.layout import GROUND_TRUTH, QUERY_EDITS, REFERENCE, TRAINING
from image_copies.pipeline.run.cli import report_errors

SOURCES = "SOURCES.tsv"
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
TEXTBOOKS = "openstax/"  # of all but one of its repositories: photographs, charts, maps, drawings
# Among every eighth picture, by eye: line art, prints, illustrations, figures that are drawn.
DRAWINGS = """
G00000 G00009 G00177 G00235 G00260 G00570 G00579 G00986 G01096 G01130 G01188 G01237 G01434 G01517 G01525 G01721 G01927 G01994
G02336 G02520 G02528 G02536 G02607 G02994 G03080 G03138 G03174 G03258 G03476 G03492 G03574 G03800 G03876 G04013 G04039 G04076
G04101 G04249 G04266 G04448 G04491 G04499 G04572
"""
COPIES = 3  # of each reference
EDITS = AugmentationSettings(intensity=0.7, extra=True)


def make_kinds(pictures: Path, folder: Path, every: int) -> None:
    """Write the folder: links to the pictures, edited copies of every so many, the ground truth and each copy's kind.

    Raises:
        UserError: The list of sources is missing, or lacks a picture; there is no picture, or the folder is there already.
    """
    kinds, images = read_kinds(pictures / SOURCES), find_images(pictures / TRAINING)
    if folder.exists():
        raise UserError(f"{folder} is there already. Name a new folder.")
    if missing := [path.name for path in images.paths if path.name not in kinds]:
        raise UserError(
            f"{pictures / SOURCES} lacks {len(missing)} pictures of {pictures / TRAINING}; the first is {missing[0]}."
        )
    parts = {REFERENCE: images.select(images.ids[::every])}
    parts[TRAINING] = images.select([image_id for row, image_id in enumerate(images.ids) if row % every])
    copies = COPIES * len(parts[REFERENCE])
    make_query_set(parts[REFERENCE], parts[TRAINING], parts[TRAINING], EDITS, seed=0, count=copies, copies=copies, folder=folder)
    for name, linked in parts.items():
        (folder / name).mkdir()
        for path in linked.paths:
            (folder / name / path.name).symlink_to(path.resolve())
    kind_of = {image_id: kinds[path.name] for image_id, path in zip(images.ids, images.paths, strict=True)}
    truth = sorted(read_ground_truth(folder / GROUND_TRUTH).pairs)
    write_table(folder / QUERY_EDITS, ["query_id", "edits"], [(query, kind_of[reference]) for query, reference in truth])


def read_kinds(sources: Path) -> dict[str, str]:
    """Return the kind of each file of a list of sources: DRAWINGS first, then by KINDS; "other" where it lacks the repository.

    Raises:
        UserError: There is no such list.
    """
    if not sources.is_file():
        raise UserError(f"{sources}: no such file. Give a table of the pictures, with the columns file and repository.")
    listed = pd.read_csv(sources, sep="\t", dtype=str)
    kinds = {
        file: KINDS.get(repository, "textbooks" if repository.startswith(TEXTBOOKS) else "other")
        for file, repository in zip(listed["file"], listed["repository"], strict=True)
    }
    return kinds | {file: "drawings" for file in kinds if Path(file).stem in DRAWINGS.split()}


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
