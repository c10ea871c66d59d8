"""Make a data set in the ISC2021 layout: the built-in sample, from any folder of photos, or from a data set with classes.

make_data.py --output DIR                                the built-in sample
make_data.py --photos DIR --output DIR                   any pictures, split into training, references and queries
make_data.py --set cub --root DIR --output DIR           the training classes of CUB-200-2011; also cars, online_products
"""

import json
from pathlib import Path

from image_copies.data import files, images, kinds, locks
from image_copies.data.errors import UserError
from image_copies.pipeline.run.cli import DIR, SEED, Table, add_options, make_task_parser, report_errors
from image_copies.pipeline.run.step import fingerprint

# in dataset.json: only what bears it is replaced
SIGNATURE = {"made_by": "make_data.py of image-copy-detection"}
OPTIONS: Table = {
    "--photos": DIR | {"help": "pictures to use; without it the sample is drawn"},
    "--set": {
        "choices": tuple(kinds.TRAINING_SETS),
        "help": "data set with classes, whose training classes are used",
    },
    "--root": DIR | {"help": "with --set: the unpacked archive"},
    "--output": DIR | {"help": "folder to make (default: runs/data/sample, or runs/data/<set>)"},
    "--seed": {
        "type": SEED,
        "metavar": "N",
        "default": 0,
        "help": "seed of the pictures, the split and the edits (default: 0)",
    },
}


def main() -> None:
    """Parse the command line and make the data set."""
    parser = make_task_parser("make_data", __doc__)
    add_options(parser, OPTIONS, OPTIONS)
    options = parser.parse_args()
    with report_errors():
        if (options.set is None) != (options.root is None) or (
            options.set is not None and options.photos is not None
        ):
            raise UserError(
                "--set and --root must be given together, and without --photos: --set cub --root DIR."
            )
        output = options.output or Path("runs/data") / (options.set or "sample")
        make_data(options.root or options.photos, output, options.seed, options.set)


def make_data(photos: Path | None, output: Path, seed: int, archive: str | None = None) -> None:
    """Make the data set unless the folder already holds the same one: the sample, or of photos, or of an unpacked archive.

    Raises:
        UserError: when `output` exists and was not made by this command, or `photos` holds too few pictures or is not the
            archive.
    """
    source = (
        "sample"
        if photos is None
        else [str(photos.resolve()), *fingerprint(images.find_images(photos, naming="path"))]
    )
    wanted = (
        SIGNATURE | {"source": source, "seed": seed} | ({"set": archive} if archive is not None else {})
    )
    made = files.read_json(output / "dataset.json")
    if SIGNATURE | made == wanted:
        print(f"{output}: up to date")
        return

    if output.exists() and not SIGNATURE.items() <= made.items():
        raise UserError(
            f"{output} exists, and no dataset.json in it says that this command made it: it is left alone. Choose another "
            "--output, or delete the folder."
        )

    # imported here: an up-to-date data set must return at once
    from image_copies.pipeline.tools.datasets import make_from_archive, make_from_photos, make_sample

    with (
        locks.hold_folder(output, "make_data", lock=output.with_name(f".{output.name}{locks.LOCK_NAME}")),
        files.whole_folder(output) as folder,
    ):
        if photos is None:
            make_sample(folder, seed)
        elif archive is not None:
            make_from_archive(archive, photos, folder, seed)
        else:
            make_from_photos(photos, folder, seed)
        files.write_text(folder / "dataset.json", json.dumps(wanted, indent=1))
    print(f"{output}: made")


if __name__ == "__main__":
    main()
