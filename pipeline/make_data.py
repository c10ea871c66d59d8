"""Make a data set in the ISC2021 layout: the built-in sample, or any folder of photos shared out."""

import argparse
import json
from pathlib import Path

from data.errors import UserError
from data.files import read_json, whole_folder, write_text
from data.images import find_images
from data.locks import LOCK, used_alone
from pipeline.run.cli import named_path, report_errors
from pipeline.run.manifest import fingerprint


def main() -> None:
    """Parse the command line and make the data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--photos", type=named_path, metavar="DIR", help="pictures to share out; without it the sample is drawn")
    parser.add_argument("--output", type=named_path, metavar="DIR", default=Path("runs/data/sample"), help="folder to make")
    parser.add_argument("--seed", type=int, default=0, help="of the pictures, the shares and the edits")
    options = parser.parse_args()
    with report_errors():
        make_data(options.photos, options.output, options.seed)


def make_data(photos: Path | None, output: Path, seed: int) -> None:
    """Make the data set unless the folder holds the same one already.

    Args:
        photos: Pictures to share out; None for the built-in sample.
        output: The folder to make.
        seed: Of the pictures, the shares and the edits.

    Raises:
        UserError: `output` exists and was not made by this command, or `photos` holds too few pictures.
    """
    source = "sample" if photos is None else [str(photos.resolve()), *fingerprint(find_images(photos, naming="path"))]
    wanted = {"source": source, "seed": seed}
    if read_json(output / "dataset.json") == wanted:
        print(f"{output}: up to date")
        return

    if output.exists() and not (output / "dataset.json").is_file():
        raise UserError(f"{output} exists and was not made by this command: it is left alone. Choose another --output.")

    # imported here: an up-to-date data set must return at once
    from pipeline.tools.datasets import make_from_photos, make_sample

    with used_alone(output, "make_data", lock=output.with_name(f".{output.name}{LOCK}")), whole_folder(output) as folder:
        if photos is None:
            make_sample(folder, seed)
        else:
            make_from_photos(photos, folder, seed)
        write_text(folder / "dataset.json", json.dumps(wanted, indent=1))
    print(f"{output}: made")


if __name__ == "__main__":
    main()
