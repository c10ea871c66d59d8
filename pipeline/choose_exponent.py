"""Choose p*, GeM's exponent for embedding at sizes other than the one that a network was trained at (MultiGrain).

choose_exponent.py --checkpoint FILE --sizes 64 96               search p* in 1 … 10 on IN-aug, edited copies of training images
choose_exponent.py --checkpoint FILE --sizes 64 96 --method sgd  train p alone, with the classifier stored with the checkpoint

FILE is models/<model>/stage-<n>.safetensors of a run; --data gives training images other than that run's.
"""

import argparse
import math

from image_copies.data.errors import UserError
from image_copies.pipeline.run.cli import CommandParser, named_path, report_errors


def make_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    options = CommandParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--checkpoint", type=named_path, metavar="FILE", required=True, help="the trained network")
    options.add_argument(
        "--data",
        type=named_path,
        metavar="DIR",
        help="training images: a folder in the ISC2021 layout, of class folders, or of images "
        "(default: those of the checkpoint's run)",
    )
    options.add_argument(
        "--sizes", type=int, nargs="+", metavar="PIXELS", help="sizes to embed at (default: the one it was trained at)"
    )
    options.add_argument(
        "--method",
        choices=("search", "sgd"),
        default="search",
        help="search: the p that ranks most of an image's 5 edited copies among its 5 nearest; "
        "sgd: one pass of SGD on p alone, which needs a classifier (objectives softmax and multigrain) (default: search)",
    )
    options.add_argument(
        "--exponents",
        type=float,
        nargs="+",
        metavar="P",
        default=[float(p) for p in range(1, 11)],
        help="with search: the candidates (default: 1 to 10)",
    )
    options.add_argument(
        "--images",
        type=int,
        metavar="N",
        help="training images to use, as many of each class (default: search 2000, sgd 50000; all where there are fewer)",
    )
    options.add_argument("--learning-rate", type=float, metavar="RATE", default=0.005, help="with sgd (default: 0.005)")
    options.add_argument("--seed", type=int, default=0, help="seed of the choice of images and their edits (default: 0)")
    options.add_argument("--workers", type=int, metavar="N", help="processes that read images (default: one per core)")
    return options


def check(options: argparse.Namespace) -> None:
    """Reject values out of range.

    Raises:
        UserError: when a value is out of range.
    """
    if any(size < 16 for size in options.sizes or ()):
        raise UserError(f"--sizes {min(options.sizes)}: give at least 16 pixels.")
    if wrong := [exponent for exponent in options.exponents if not 0 < exponent < math.inf]:
        raise UserError(f"--exponents {wrong[0]:g}: give numbers above 0, such as 3.")
    if options.images is not None and options.images < 2:
        raise UserError(f"--images {options.images}: give at least 2.")
    if not 0 < options.learning_rate < math.inf:
        raise UserError(f"--learning-rate {options.learning_rate:g}: give a number above 0, such as 0.005.")
    if options.workers is not None and options.workers < 0:
        raise UserError(f"--workers {options.workers}: give 0 or more.")


if __name__ == "__main__":
    arguments = make_parser().parse_args()
    with report_errors():
        check(arguments)
        # imported here: --help must answer at once
        from image_copies.pipeline.tools.pooling_exponent import ExponentSearch, choose_exponent

        how = ExponentSearch(
            method=arguments.method,
            exponents=tuple(arguments.exponents),
            images=arguments.images,
            learning_rate=arguments.learning_rate,
            seed=arguments.seed,
            workers=arguments.workers,
        )
        choose_exponent(arguments.checkpoint, how, arguments.data, arguments.sizes)
